"""One family of errors: each class carries its own code, exit code and SQLSTATE.

The first line of a class's docstring is its default message. A message may name tables, columns,
counts and types; it never holds a value of a column.

A new error is one class in the module of its exit code, or of its room: the stars below make it
public.
"""

from dbanon.errors.base import DbanonError as DbanonError
from dbanon.errors.base import counted as counted
from dbanon.errors.base import error_code as error_code
from dbanon.errors.base import hints_without_views as hints_without_views
from dbanon.errors.base import lacks_memory as lacks_memory
from dbanon.errors.base import nearest_names as nearest_names
from dbanon.errors.base import sql_for_hint as sql_for_hint
from dbanon.errors.base import warn_caller as warn_caller
from dbanon.errors.database import *
from dbanon.errors.extras import *
from dbanon.errors.files import *
from dbanon.errors.jobs import *
from dbanon.errors.privacy import *
from dbanon.errors.redaction import has_credentials as has_credentials
from dbanon.errors.redaction import redact as redact
from dbanon.errors.usage import *
from dbanon.errors.warnings import *
