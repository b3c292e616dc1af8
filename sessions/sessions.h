/* sessions/sessions.h - what is stored between runs, and what is read from elsewhere: four rooms, each with one door.
 *
 *     fetch/fetch.h     pages and parts of files from the web; answers of servers as they arrive
 *     import/import.h   documents of any format become text with marks
 *     store/store.h     chat.db: sessions, messages, documents, settings, search.  Small, precious, durable
 *     snap/snap.h       kv.db: snapshots of timelines.  Large and disposable */
#ifndef WEIR_SESSIONS_H
#define WEIR_SESSIONS_H

#include "engine/base/base.h"

/* "SQLite 3.40.1, libarchive 3.6.2, ...": the libraries that this folder uses, as they run; appended. */
void sessions_libraries(struct str *out);

#endif
