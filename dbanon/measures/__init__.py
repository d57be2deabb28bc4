"""What a release lost and what it still risks."""

from __future__ import annotations

from dbanon.measures.information_loss import Loss, centroid_loss, released_loss

__all__ = ["Loss", "centroid_loss", "released_loss"]
