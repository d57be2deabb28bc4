"""Names of the types of arrays whose dtype is open: it is that of a column, or of any array.

Where the dtype is known, a type says so, such as ``NDArray[np.float64]``. This module imports
numpy, which the commands' help does without; ``data.types`` has the names of other open types.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# An array of any dtype, such as the values of a column.
AnyArray: TypeAlias = NDArray[Any]
# The dtype of such an array.
AnyDtype: TypeAlias = np.dtype[Any]
