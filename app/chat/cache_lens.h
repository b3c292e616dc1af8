/* app/chat/cache_lens.h (private to app/chat/cache_*.c) - lenses, which tell the screen what words were evicted. */
#ifndef WEIR_CACHE_LENS_H
#define WEIR_CACHE_LENS_H

#include "app/chat/cache_view.h"

/* Replace the report's lenses, at most once a second. read: see cache_report_take(). */
void lenses_take(struct cache_report *, const struct conversation *, struct listener *, const struct timeline_stats *,
                 int32_t read);
/* Make the lenses if the model is on a server. Its cache is unknown: messages that are no longer sent count as
 * evicted. */
void lenses_of_server(struct cache_report *, const struct conversation *, struct listener *);
void lenses_free(struct cache_report *);

#endif
