/* tests/app/t_documents.c - the commands about documents, whoever shows them (app/chat/cmd_documents.c; tests/lib/scene.h). */
#include <sys/stat.h>

#include "tests/lib/scene.h"

/* ---- files ---- */

static char files[80];

static void make_files(void)
{
	snprintf(files, sizeof files, "/tmp/weir-files-XXXXXX");
	if (!mkdtemp(files))
		SKIP("no directory can be made");
}

static void put(const char *name, const char *text, size_t n)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", files, name);
	f = fopen(path, "w");
	CHECK(f && fwrite(text, 1, n, f) == n);
	if (f)
		fclose(f);
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void remove_files(void)
{
	char command[120];

	snprintf(command, sizeof command, "rm -rf %.70s", files);
	if (system(command)) { /* only a directory is left */ }
}

/* A command about a file: its % is the folder. */
static void do_file(struct scene *s, const char *line)
{
	struct str text = {0};

	for (; *line; line++)
		if (*line == '%')
			str_adds(&text, files);
		else
			str_add(&text, line, 1);
	do_line(s, text.p);
	str_free(&text);
}

/* ---- several at once ---- */

TEST(folders_and_patterns_are_several_documents)
{
	struct scene s;

	make_files();
	put_text("a.md", "# One\n\nfirst\n");
	put_text("b.txt", "second\n");
	put("c.txt", "\0\1\2\0", 4);
	put_text("d.png", "no document");
	open_scene(&s, "-n 2 --private --chat-template chatml");
	s.c.o.quiet = 0;
	do_file(&s, "/read %");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	CHECK_INT(s.c.t.n_doc, 2);
	CHECK(has(&s.said, "document 'a.md': ") && has(&s.said, "document 'b.txt': ") && has(&s.said, "c.txt") && !has(&s.said, "d.png"));
	CHECK(has(&s.said, "2 of 3 files of '") && has(&s.said, "' are documents now, 1 could not be read\n[2 documents: "));
	/* What is there already is not added again; what matches a pattern is. */
	put_text("e.md", "third\n");
	do_file(&s, "/read %/*.md");
	CHECK_INT(s.c.t.n_doc, 3);
	CHECK(has(&s.said, "document 'a.md' is there already") && has(&s.said, "2 documents of '") && has(&s.said, "[document 'e.md': "));
	/* A file of that very name is no pattern. */
	put_text("f[1].txt", "fourth\n");
	do_file(&s, "/read %/f[1].txt");
	CHECK(s.c.t.n_doc == 4 && !strcmp(s.c.t.doc[3].name, "f[1].txt"));
	do_file(&s, "/read %/*.odt");
	CHECK(has(&s.errors, "no file is named like"));
	do_file(&s, "/read %/c*");
	CHECK(has(&s.errors, "c.txt") && s.c.t.n_doc == 4);
	close_scene(&s);
	remove_files();
	cleanup();
}

TEST(files_that_all_fail_are_an_error)
{
	struct scene s;

	make_files();
	put("a.txt", "\0\1\2\0", 4);
	put("b.txt", "\0\1\2\0", 4);
	open_scene(&s, "-n 2 --private --chat-template chatml");
	do_file(&s, "/read %");
	CHECK(has(&s.errors, "none of the 2 files of '") && s.c.t.n_doc == 0);
	close_scene(&s);
	remove_files();
	cleanup();
}
