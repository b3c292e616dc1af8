/* app/chat/cache_lens.h - finds which words of each document and message are evicted from the KV cache, so that the
 * screen can dim them. The result for one text is called its lens. For app/chat/cache_*.c only. */
#ifndef WEIR_CACHE_LENS_H
#define WEIR_CACHE_LENS_H

#include "app/chat/cache_view.h"

/* Find the evicted words of all texts again, and store the result in the report's lenses. A call less than a second
 * after the previous call does nothing. For the meaning of `read`, see cache_report_take(). */
void lenses_take(struct cache_report *, const struct conversation *, struct listener *, const struct timeline_stats *,
                 int32_t read);
/* Fill in the report's lenses if the model is on a server. The KV cache of the server is unknown, so a message counts
 * as evicted if requests no longer contain it. */
void lenses_of_server(struct cache_report *, const struct conversation *, struct listener *);
void lenses_free(struct cache_report *);

#endif
