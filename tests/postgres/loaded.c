/* Preloaded into a server's first process: starts Python there, and runs PRELOADED in it.
 *
 * PL/Python starts Python in the backend that first needs it; preloading PL/Python itself is not
 * enough. No header of the server's or of Python's is needed: PL/Python's own library says for
 * which server it is built, and knows its Python.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static void *plpython(void)
{
    static void *library;
    char path[4096];
    if (library == NULL) {
        snprintf(path, sizeof path, "%s/plpython3.so", (char *)dlsym(RTLD_DEFAULT, "pkglib_path"));
        library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return library;
}

/* A function of PL/Python's library or of the Python that it is linked with. */
static void *function(const char *name)
{
    void *found = dlsym(plpython(), name);
    if (found == NULL) {
        fprintf(stderr, "%s: no %s\n", dlerror(), name);
        exit(1);
    }
    return found;
}

const void *Pg_magic_func(void)
{
    const void *(*magic)(void) = function("Pg_magic_func");
    return magic();
}

/* In place of Python's own, for the server loads this library first, and for all that follow.
 *
 * PL/Python adds its module in each backend before it starts Python. Since 3.12 Python aborts the
 * process if it runs already; here it has the module since then, and there is nothing to add.
 */
int PyImport_AppendInittab(const char *name, void *(*module)(void))
{
    int (*is_initialized)(void) = function("Py_IsInitialized");
    int (*append)(const char *, void *(*)(void)) = function("PyImport_AppendInittab");
    return is_initialized() ? 0 : append(name, module);
}

void _PG_init(void)
{
    void (*initialize)(int) = function("Py_InitializeEx");
    int (*run)(const char *) = function("PyRun_SimpleString");

    PyImport_AppendInittab("plpy", function("PyInit_plpy"));
    initialize(0);
    if (run(getenv("PRELOADED")) != 0)
        exit(1);
}
