/* Loaded before a server of tests: Python begins, and imports, in the server's first process.

   Backends are forked from it with all of that. The server itself knows nothing of it: PL/Python
   finds an interpreter that runs already. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library;
static int runs;

static void *of_python(const char *name) { return dlsym(library, name); }

/* PL/Python names its module before it starts Python. For one that runs this comes too late, and
   newer ones end the process over it: the module is put where an import looks first. */
int PyImport_AppendInittab(const char *name, void *(*make)(void)) {
  if (!runs) {
    int (*append)(const char *, void *(*)(void)) = dlsym(RTLD_NEXT, "PyImport_AppendInittab");
    return append(name, make);
  }
  void *(*modules)(void) = of_python("PyImport_GetModuleDict");
  int (*put)(void *, const char *, void *) = of_python("PyDict_SetItemString");
  void *made = make();
  return made ? put(modules(), name, made) : -1;
}

__attribute__((constructor)) static void begin(void) {
  const char *name = getenv("DBANON_TEST_LIBPYTHON");
  const char *asked = getenv("DBANON_TEST_IMPORTS");
  /* Of the programs before it, such as setpriv, none. */
  if (!name || !asked || strcmp(program_invocation_short_name, "postgres")) return;
  char *script = strdup(asked);
  library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  unsetenv("LD_PRELOAD");
  unsetenv("DBANON_TEST_LIBPYTHON");
  unsetenv("DBANON_TEST_IMPORTS");
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return;
  }
  void (*initialize)(int) = of_python("Py_InitializeEx");
  int (*run)(const char *) = of_python("PyRun_SimpleString");
  /* As the server sets it for its backends, which begin Python in it otherwise. */
  setenv("LC_CTYPE", "C.UTF-8", 1);
  /* Without handlers of signals: the server has its own. */
  initialize(0);
  unsetenv("LC_CTYPE");
  runs = 1;
  run(script);
  free(script);
}
