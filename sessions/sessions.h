/* sessions/sessions.h - what is stored between runs, and what is read from files and the web: four rooms, each with one
 * door.
 *
 *     fetch/fetch.h     reads web pages and parts of files; streams answers of servers
 *     import/import.h   turns documents of any format into text with marks
 *     store/store.h     chat.db: sessions, messages, documents, settings, search.  Small, precious, durable
 *     snap/snap.h       kv.db: snapshots of timelines.  Large and disposable */
#ifndef WEIR_SESSIONS_H
#define WEIR_SESSIONS_H

#include "engine/base/base.h"

/* Append the versions of the libraries that sessions/ uses, as linked: "SQLite 3.40.1, libarchive 3.6.2, ...". */
void sessions_libraries(struct str *out);

#endif
