/* Preloaded into a server's first process: starts Python there, and runs PRELOADED in it.
 *
 * PL/Python starts Python in the backend that first needs it; preloading PL/Python itself is not
 * enough. No header of the server's is needed: what says for which version a library is built is
 * said by PL/Python's own library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *plpython(void)
{
    char place[4096];
    snprintf(place, sizeof place, "%s/plpython3.so", (char *)dlsym(RTLD_DEFAULT, "pkglib_path"));
    return dlopen(place, RTLD_NOW | RTLD_GLOBAL);
}

const void *Pg_magic_func(void)
{
    const void *(*magic)(void) = dlsym(plpython(), "Pg_magic_func");
    return magic();
}

void _PG_init(void)
{
    void *library = plpython();
    const char *(*version)(void) = dlsym(library, "Py_GetVersion");
    int (*append)(const char *, void *) = dlsym(library, "PyImport_AppendInittab");
    void (*begin)(int) = dlsym(library, "Py_InitializeEx");
    int (*run)(const char *) = dlsym(library, "PyRun_SimpleString");

    /* PL/Python appends its module when it finds it has not begun, and newer ones refuse that. */
    if (strncmp(version(), "3.11.", 5) != 0)
        return;
    append("plpy", dlsym(library, "PyInit_plpy"));
    begin(0);
    run(getenv("PRELOADED"));
}
