/* app/tools/models.c - weir models: the models that are on this machine. */
#include <stdlib.h>
#include <string.h>

#include "app/tools/tools.h"
#include "ui/ui.h"

int cmd_models(const struct options *o)
{
	struct model_file *file;
	struct str s = {0}, used = {0};
	struct err e = {0};
	size_t n = model_files(&file), width = 0;
	int rc, listed = 0;

	if (model_path(o, &used, &e) < 0) {
		str_clear(&used);
		if (o->model) {
			model_files_free(file, n);
			return fail(&e);
		}
	}
	e = (struct err){0};
	for (size_t i = 0; i < n; i++)
		width = strlen(file[i].name) > width ? strlen(file[i].name) : width;
	width = width < 48 ? width : 48;
	for (size_t i = 0; i < n; i++) {
		struct str size = {0};
		int in_use = used.n && !strcmp(used.p, file[i].path);

		listed |= in_use;
		human_bytes(&size, file[i].bytes);
		str_adds(&s, in_use ? "* " : "  ");
		table_cell(&s, file[i].name, width);
		str_addf(&s, "  %9s  %-12s  ", size.p, file[i].from);
		clean_line(file[i].path, strlen(file[i].path), &s);
		str_adds(&s, "\n");
		str_free(&size);
	}
	if (o->model && !listed) {
		str_adds(&s, "* ");
		clean_line(used.p, used.n, &s);
		str_adds(&s, "  (-m, WEIR_MODEL or config)\n");
	}
	rc = s.n && print_all(s.p, s.n, &e) < 0 ? fail(&e) : 0;
	if (!s.n && !o->quiet)
		say("no model in the folders of weir, Hugging Face, llama.cpp, LM Studio and Ollama: run 'make run' once to fetch the default one, or give -m FILE.gguf");
	model_files_free(file, n);
	str_free(&s);
	str_free(&used);
	return rc;
}
