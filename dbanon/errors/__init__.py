"""The errors and warnings of dbanon; each error class has a code, exit code and SQLSTATE.

The first line of a class's docstring is its default message. A message may name tables, columns,
counts and types, but never contains a value of a column.

Add a new error as a class in the module of its exit code or subject; the star imports below export
it.
"""

from dbanon.errors.base import DbanonError as DbanonError
from dbanon.errors.base import error_code as error_code
from dbanon.errors.base import hints_without_views as hints_without_views
from dbanon.errors.base import is_out_of_memory as is_out_of_memory
from dbanon.errors.base import nearest_names as nearest_names
from dbanon.errors.base import pluralize as pluralize
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
