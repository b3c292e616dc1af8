/* tests/lib/published.h - chat templates that makers of models have published, and what Jinja2 makes of them. */
#ifndef WEIR_TEST_PUBLISHED_H
#define WEIR_TEST_PUBLISHED_H

#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Return the path of a file of data/chat-templates in the reference data. Without the reference data, return its path
 * in the archive chat-templates, which has 20 of the 68 templates. The path is in a static buffer and stays valid for
 * four calls. */
static inline const char *published(const char *rel)
{
	const char *top = getenv("WEIR_SHARED");
	char path[1024];

	snprintf(path, sizeof path, "%s/data/chat-templates/jinja", top ? top : "../shared");
	if (access(path, R_OK))
		return test_unpacked("chat-templates", rel);
	snprintf(path, sizeof path, "data/chat-templates/%s", rel);
	return test_shared(path);
}

#endif
