/* app/chat/cache_lens.h - finds which words of each document and message are evicted from the KV cache, so that
 * the screen can dim them. The result for one text is called its lens. Private to app/chat/cache_*.c. */
#ifndef WEIR_CACHE_LENS_H
#define WEIR_CACHE_LENS_H

#include "app/chat/cache_view.h"

/* Find anew which words are evicted from the KV cache, and store the result in the report's lenses. Does nothing
 * if that was done less than a second ago. read: see cache_report_take(). */
void lenses_take(struct cache_report *, const struct conversation *, struct listener *, const struct timeline_stats *,
                 int32_t read);
/* Find the evicted words if the model is on a server. Its KV cache is unknown, so the messages that requests no
 * longer contain count as evicted. */
void lenses_of_server(struct cache_report *, const struct conversation *, struct listener *);
void lenses_free(struct cache_report *);

#endif
