/* tests/app/t_folders.c - folders whose files are documents, looked at before each question (app/chat/folders.c,
 * read_files.c; tests/lib/scene.h). */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/lib/scene.h"

static char files[80];
static char options[] = "-n 1 -s folder --chat-template chatml --kv full -c 2000";

static void make_files(void)
{
	char path[100];

	snprintf(files, sizeof files, "/tmp/weir-folder-XXXXXX");
	if (!mkdtemp(files))
		SKIP("no directory can be made");
	snprintf(path, sizeof path, "%s/f", files);
	CHECK(!mkdir(path, 0700));
	snprintf(path, sizeof path, "%s/f/sub", files);
	CHECK(!mkdir(path, 0700));
}

static void path_of(const char *name, char path[200])
{
	snprintf(path, 200, "%.70s/f/%.100s", files, name);
}

static void put(const char *name, const char *text)
{
	char path[200];
	FILE *f;

	path_of(name, path);
	f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0);
	if (f)
		fclose(f);
}

static void take(const char *name)
{
	char path[200];

	path_of(name, path);
	CHECK(!unlink(path));
}

static void set_time(const char *name, time_t seconds)
{
	struct timespec t[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };
	char path[200];

	path_of(name, path);
	CHECK(!utimensat(AT_FDCWD, path, t, 0));
}

static void remove_files(void)
{
	char command[120];

	snprintf(command, sizeof command, "rm -rf %.70s", files);
	if (system(command)) { /* on failure only a directory in /tmp stays behind */
	}
}

static void open_folder(struct scene *s)
{
	open_scene(s, options);
	s->c.o.quiet = 0;
	do_line_in(s, files, "/open %/f");
	CHECK_MSG(!s->errors.n, "%s", s->errors.p);
}

static void resume(struct scene *s)
{
	close_scene(s);
	open_scene(s, options);
	s->c.o.quiet = 0;
}

/* Ask a question, and check the line about the folder. want: NULL = there must be no such line. */
static void asks(struct scene *s, const char *want)
{
	do_line(s, "a question");
	CHECK_MSG(want ? has(&s->said, want) : !has(&s->said, "folder 'f'"), "said: %s", str_text(&s->said));
}

/* Check the names and texts of the documents: "NAME:TEXT", sorted by name, with '|' between them. */
static void documents(const struct scene *s, const char *want)
{
	struct str got = { 0 };
	const char *last = "";

	for (size_t n = 0; n < s->c.conv.n_doc; n++) {
		const struct document *next = NULL;

		for (size_t i = 0; i < s->c.conv.n_doc; i++)
			if (strcmp(s->c.conv.doc[i].name, last) > 0 &&
			    (!next || strcmp(s->c.conv.doc[i].name, next->name) < 0))
				next = &s->c.conv.doc[i];
		if (!next)
			break;
		str_addf(&got, "%s%s:", n ? "|" : "", next->name);
		str_add(&got, next->text.p + next->body, next->n_body);
		last = next->name;
	}
	CHECK_STR(str_text(&got), want);
	str_free(&got);
}

TEST(new_changed_and_vanished_files_are_found)
{
	struct scene s;

	make_files();
	put("a.txt", "one");
	put("b.txt", "two");
	put("sub/c.txt", "three");
	put("d.txt", "four");
	open_folder(&s);
	CHECK(has(&s.said, "4 documents of '"));
	asks(&s, NULL);

	put("a.txt", "changed");
	put("e.txt", "new");
	take("b.txt");
	set_time("d.txt", 1000);
	asks(&s, "[folder 'f': 1 changed, 1 new, 1 gone: read anew]");
	documents(&s, "a.txt:changed|c.txt:three|d.txt:four|e.txt:new");
	asks(&s, NULL);

	/* The session has stored all documents, and the next run reads no file again. */
	resume(&s);
	documents(&s, "a.txt:changed|c.txt:three|d.txt:four|e.txt:new");
	asks(&s, NULL);
	take("e.txt");
	asks(&s, "[folder 'f': 1 gone]");
	/* A file that changes without changing its size is read again. */
	put("a.txt", "CHANGED");
	set_time("a.txt", 2000);
	asks(&s, "[folder 'f': 1 changed: read anew]");
	resume(&s);
	documents(&s, "a.txt:CHANGED|c.txt:three|d.txt:four");
	do_line_in(&s, files, "/open %/f");
	CHECK(has(&s.said, "folder 'f': its 3 documents are there already"));
	/* A fork changes its own documents only. */
	do_line(&s, "/fork folder2");
	put("sub/c.txt", "third");
	asks(&s, "[folder 'f': 1 changed: read anew]");
	CHECK(!has(&s.said, "not saved any more"));
	close_scene(&s);
	open_scene(&s, "-n 1 -s folder2 --chat-template chatml --kv full -c 2000");
	s.c.o.quiet = 0;
	asks(&s, NULL);
	documents(&s, "a.txt:CHANGED|c.txt:third|d.txt:four");
	close_scene(&s);
	open_scene(&s, options);
	s.c.o.quiet = 0;
	asks(&s, "[folder 'f': 1 changed: read anew]");
	close_scene(&s);
	remove_files();
	cleanup();
}

TEST(a_file_that_moves_stays_a_document)
{
	struct scene s;
	char from[200], to[200];

	make_files();
	put("a.txt", "one");
	put("b.txt", "two");
	open_folder(&s);
	path_of("a.txt", from);
	path_of("sub/a.txt", to);
	CHECK(!rename(from, to));
	asks(&s, "[folder 'f': 1 new, 1 gone: read anew]");
	documents(&s, "a.txt:one|b.txt:two");
	/* Of two files with the same name and text only one is a document. When its file is removed, the other file
	 * becomes a document. */
	put("b.txt", "two");
	put("sub/b.txt", "two");
	asks(&s, NULL);
	documents(&s, "a.txt:one|b.txt:two");
	asks(&s, NULL);
	take("b.txt");
	asks(&s, "[folder 'f': 1 new, 1 gone: read anew]");
	documents(&s, "a.txt:one|b.txt:two");
	close_scene(&s);
	remove_files();
	cleanup();
}

TEST(a_bad_file_never_stops_the_rest)
{
	struct scene s;

	make_files();
	put("a.txt", "one");
	put("b.pdf", "%PDF-1.4 broken");
	put("c.txt", "three");
	open_folder(&s);
	CHECK_MSG(has(&s.said, "2 of 3 files of '") && has(&s.said, "1 could not be read (document '") &&
	                  has(&s.said, "b.pdf"),
	          "%s", s.said.p);
	documents(&s, "a.txt:one|c.txt:three");
	/* The damaged file is read and reported again only after it has changed. */
	asks(&s, NULL);
	resume(&s);
	asks(&s, NULL);
	put("b.pdf", "%PDF-1.4 broken again");
	asks(&s, "[folder 'f': 1 not readable (document '");
	take("b.pdf");
	asks(&s, NULL);
	close_scene(&s);
	remove_files();
	cleanup();
}

TEST(what_the_user_drops_or_adds_stays_so)
{
	struct scene s;

	make_files();
	put("a.txt", "one");
	put("b.txt", "two");
	put("c.log", "three");
	put("d.log", "four");
	open_folder(&s);
	do_line(&s, "/drop a.txt");
	asks(&s, NULL);
	resume(&s);
	asks(&s, NULL);
	documents(&s, "b.txt:two|c.log:three|d.log:four");
	/* Documents that git ignores from now on are dropped, except one that the user adds by name. */
	put(".gitignore", "*.log\n");
	asks(&s, "[folder 'f': 2 gone]");
	do_line_in(&s, files, "/open %/f/c.log");
	asks(&s, NULL);
	documents(&s, "b.txt:two|c.log:three");
	resume(&s);
	asks(&s, NULL);
	documents(&s, "b.txt:two|c.log:three");
	close_scene(&s);
	remove_files();
	cleanup();
}

TEST(a_folder_that_cannot_be_listed_keeps_its_documents)
{
	struct scene s;
	char from[200], to[200];

	make_files();
	put("a.txt", "one");
	open_folder(&s);
	snprintf(from, sizeof from, "%s/f", files);
	snprintf(to, sizeof to, "%s/g", files);
	CHECK(!rename(from, to));
	asks(&s, "its documents stay as they were read]");
	asks(&s, NULL);
	documents(&s, "a.txt:one");
	CHECK(!rename(to, from));
	put("a.txt", "changed");
	asks(&s, "[folder 'f': 1 changed: read anew]");
	close_scene(&s);
	remove_files();
	cleanup();
}

static void stop_at_third(struct conversation *conv, const struct conversation_event *event, void *ud)
{
	(void)ud;
	if (event->what == EVENT_DOCUMENT_ADDED && conv->n_doc % 3 == 0)
		signals_stop();
}

TEST(what_was_read_before_a_stop_stays)
{
	struct scene s;
	char name[20];

	make_files();
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof name, "%d.txt", i);
		put(name, name);
	}
	open_scene(&s, options);
	s.c.o.quiet = 0;
	conversation_observe(&s.c.conv, stop_at_third, NULL);
	do_line_in(&s, files, "/open %/f");
	CHECK_MSG(has(&s.said, "stopped after 3 of 6 files; /open "), "%s", str_text(&s.said));
	CHECK_INT(s.c.conv.n_doc, 3);
	conversation_ignore(&s.c.conv, stop_at_third, NULL);
	asks(&s, NULL);
	CHECK_INT(s.c.conv.n_doc, 3);
	do_line_in(&s, files, "/open %/f");
	CHECK(has(&s.said, "folder 'f': 3 new: read anew"));
	resume(&s);
	CHECK_INT(s.c.conv.n_doc, 6);
	/* If the user stops the reading before a question, the question is withdrawn. */
	for (int i = 6; i < 12; i++) {
		snprintf(name, sizeof name, "%d.txt", i);
		put(name, name);
	}
	conversation_observe(&s.c.conv, stop_at_third, NULL);
	do_line(&s, "a question");
	CHECK_MSG(has(&s.said, "[stopped after 3 of 6 files: the question is withdrawn"), "%s", str_text(&s.said));
	conversation_ignore(&s.c.conv, stop_at_third, NULL);
	asks(&s, "[folder 'f': 3 new: read anew]");
	CHECK_INT(s.c.conv.n_doc, 12);
	close_scene(&s);
	remove_files();
	cleanup();
}
