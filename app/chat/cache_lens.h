/* app/chat/cache_lens.h (private to app/chat/cache_*.c) - the lenses of a report, which mark evicted words. */
#ifndef WEIR_CACHE_LENS_H
#define WEIR_CACHE_LENS_H

#include "app/chat/cache_view.h"

/* Make the lenses anew, at most once a second. read: as for cache_report_take(). */
void lenses_take(struct cache_report *, const struct conversation *, struct listener *, const struct timeline_stats *,
                 int32_t read);
/* Make the lenses for a model on a server: messages that are no longer sent count as evicted. */
void lenses_of_server(struct cache_report *, const struct conversation *, struct listener *);
void lenses_free(struct cache_report *);

#endif
