/* sessions/sessions.h - stores data between runs, and reads files and the web.  It has four directories, each with
 * one public header:
 *
 *     fetch/fetch.h:    reads web pages and parts of files; streams answers of servers;
 *     import/import.h:  turns documents of any format into text with page and heading marks;
 *     store/store.h:    chat.db: sessions, messages, documents, settings, search.  Small, precious, durable;
 *     snap/snap.h:      kv.db: snapshots (saved KV caches).  Large and disposable. */
#ifndef WEIR_SESSIONS_H
#define WEIR_SESSIONS_H

#include "engine/base/base.h"

/* Append the versions of the libraries that sessions/ uses at run time: "SQLite 3.40.1, libarchive 3.6.2, ...". */
void sessions_libraries(struct str *out);

#endif
