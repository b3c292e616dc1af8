/* ui/panes/panes.c - the table of panes. */
#include "ui/panes/panes.h"

#define ROW(name, ops) [name] = &ops,
const struct pane_ops *const pane_ops[N_PANES] = { PANES(ROW) };
#undef ROW
