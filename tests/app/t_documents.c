/* tests/app/t_documents.c - the commands about documents, without a front end (app/chat/add_documents.c,
 * cmd_documents.c; tests/lib/scene.h). */
#include <fcntl.h>
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
	if (system(command)) { /* on failure only a directory is left behind */
	}
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
	open_scene(&s, "-n 2 --private --chat-template chatml --kv full -c 2000");
	s.c.o.quiet = 0;
	do_line_in(&s, files, "/read %");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	CHECK_INT(s.c.conv.n_doc, 2);
	CHECK(has(&s.said, "document 'a.md': ") && has(&s.said, "document 'b.txt': ") && has(&s.said, "c.txt") &&
	      !has(&s.said, "document 'd.png'"));
	CHECK(has(&s.said, "2 of 3 files of '"));
	CHECK(has(&s.said, "' are documents now, 1 could not be read; left out for its name: 'd.png' (document '"));
	CHECK(has(&s.said, "[2 documents: "));
	/* A pattern adds the files that are not documents yet. */
	put_text("e.md", "third\n");
	do_line_in(&s, files, "/read %/*.md");
	CHECK_INT(s.c.conv.n_doc, 3);
	CHECK(has(&s.said, "2 documents of '") && has(&s.said, "', 1 of them there already") &&
	      has(&s.said, "[document 'e.md': "));
	/* The name of an existing file is not taken as a pattern. */
	put_text("f[1].txt", "fourth\n");
	do_line_in(&s, files, "/read %/f[1].txt");
	CHECK(s.c.conv.n_doc == 4 && !strcmp(s.c.conv.doc[3].name, "f[1].txt"));
	do_line_in(&s, files, "/read %/*.odt");
	CHECK(has(&s.errors, "no file is named like"));
	do_line_in(&s, files, "/read %/c*");
	CHECK(has(&s.errors, "c.txt") && s.c.conv.n_doc == 4);
	close_scene(&s);
	remove_files();
	cleanup();
}

static size_t count_whole(const struct scene *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->c.conv.n_doc; i++)
		n += s->c.conv.doc[i].whole != 0;
	return n;
}

/* Files that together exceed the context by far are all searched, because the first ones would fill the context in
 * vain. A resumed session decides the same. */
TEST(a_folder_that_is_much_too_long_is_searched)
{
	static const char *const options = "-n 2 -s folder --chat-template chatml --kv full -c 2000";
	struct str text = { 0 };
	struct scene s;
	char name[16];

	make_files();
	for (int i = 0; i < 40; i++)
		str_adds(&text, "The ship lay in the bay.\n\n");
	for (int i = 10; i < 28; i++) {
		snprintf(name, sizeof name, "%d.txt", i);
		str_addf(&text, "Lighthouse %d burns oil.\n\n", i);
		put_text(name, text.p);
	}
	open_scene(&s, options);
	s.c.o.quiet = 0;
	do_line_in(&s, files, "/read %/1[012].txt");
	CHECK_INT(s.c.conv.n_doc, 3);
	CHECK_INT(count_whole(&s), 1);
	CHECK(has(&s.said, "2 documents: about ") && has(&s.said, "more than still fit the context of 2,000"));
	do_line_in(&s, files, "/read %/[12][0-9].txt");
	CHECK_INT(s.c.conv.n_doc, 18);
	CHECK_INT(count_whole(&s), 0);
	do_line(&s, "What does lighthouse 17 burn?");
	CHECK_INT(s.c.conv.n_msg, 2);
	/* A document that is added alone later is read whole. */
	put_text("later.txt", "later\n");
	do_line_in(&s, files, "/read %/later.txt");
	CHECK_INT(count_whole(&s), 1);
	do_line(&s, "And now?");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	close_scene(&s);
	open_scene(&s, options);
	CHECK_INT(s.c.conv.n_doc, 19);
	CHECK_INT(count_whole(&s), 1);
	CHECK(s.c.conv.doc[18].whole && s.c.conv.doc[18].at == 2);
	close_scene(&s);
	str_free(&text);
	remove_files();
	cleanup();
}

TEST(files_that_all_fail_are_an_error)
{
	struct scene s;

	make_files();
	put("a.txt", "\0\1\2\0", 4);
	put("b.txt", "\0\1\2\0", 4);
	open_scene(&s, "-n 2 --private --chat-template chatml --kv full -c 2000");
	do_line_in(&s, files, "/read %");
	CHECK(has(&s.errors, "none of the 2 files of '") && s.c.conv.n_doc == 0);
	close_scene(&s);
	remove_files();
	cleanup();
}

/* ---- places ---- */

static const char parish[] =
	"# The parish\n\nIt lies between two hills.\n\n## The bridge\n\nIt was built in 1847.\n\fMore of it.\n\n## The mill\n\nIt grinds barley.\n";

/* The output of a shell command becomes a document only after the user has confirmed it by /run. */
TEST(the_output_of_a_command_is_a_document)
{
	struct scene s;

	open_scene(&s, "-n 4 --private -c 2000 --kv full");
	s.c.interactive = 1;
	do_line(&s, "/run");
	CHECK(has(&s.errors, "no command was proposed"));
	do_line(&s, "! /bin/echo The mill; echo cost 5985 pounds >&2; exit 3 ");
	CHECK_INT(s.c.conv.n_doc, 0);
	CHECK(has(&s.said,
	          "[nothing has run yet: /run runs  /bin/echo The mill; echo cost 5985 pounds >&2; exit 3  and adds"));
	do_line(&s, "/run");
	CHECK_INT(s.c.conv.n_doc, 1);
	CHECK(strstr(s.c.conv.doc[0].text.p, "The mill\ncost 5985 pounds\n") != NULL);
	CHECK(!strncmp(s.c.conv.doc[0].name,
	               "$ \xe2\x81\x84"
	               "bin\xe2\x81\x84"
	               "echo The mill",
	               24));
	CHECK(has(&s.said, "[exit status 3; what it printed is a document]"));
	do_line(&s, "/run");
	CHECK_INT(s.c.conv.n_doc, 1); /* once */
	do_line(&s, "!true");
	do_line(&s, "/run");
	CHECK(has(&s.said, "printed nothing; exit status 0") && s.c.conv.n_doc == 1);
	/* What is allowed runs at once; a private conversation keeps nothing. */
	do_line(&s, "!echo once");
	do_line(&s, "/run never");
	CHECK(has(&s.errors, "/run takes the word 'always' or none, not 'never'"));
	do_line(&s, "/run always");
	CHECK(has(&s.errors, "a private conversation keeps no settings") && s.c.conv.n_doc == 2);
	s.c.o.private_talk = 0;
	do_line(&s, "!echo twice");
	CHECK_INT(s.c.conv.n_doc, 2);
	do_line(&s, "/run always");
	CHECK(has(&s.said, "[!echo ... runs at once from now on: it is a line of ") && s.c.conv.n_doc == 3);
	do_line(&s, "!echo a third time");
	CHECK_INT(s.c.conv.n_doc, 4);
	do_line(&s, "!echo and; rm nothing-there");
	do_line(&s, "!echo $(date)");
	do_line(&s, "!echo `date` >x");
	do_line(&s, "!echoes no");
	CHECK_INT(s.c.conv.n_doc, 4);
	do_line(&s, "!echo one; echo line");
	do_line(&s, "/run always");
	do_line(&s, "/undo");
	do_line(&s, "!echo one; echo line");
	CHECK_INT(s.c.conv.n_doc, 5);
	do_line(&s, "!echo one; echo lines");
	CHECK_INT(s.c.conv.n_doc, 5);
	/* If questions come from a pipe, !COMMAND is a question. */
	s.c.interactive = 0;
	do_line(&s, "!true");
	CHECK_INT(s.c.conv.n_msg, 2);
	close_scene(&s);
	cleanup();
}

TEST(the_outline_has_headings_and_pages)
{
	struct scene s;

	make_files();
	put_text("parish.md", parish);
	put_text("plain.txt", "no heading at all\n");
	open_scene(&s, "-n 2 --private --chat-template chatml --kv full -c 2000");
	do_line(&s, "/outline");
	CHECK(has(&s.errors, "there is no document"));
	do_line_in(&s, files, "/read %/parish.md");
	do_line(&s, "/outline");
	CHECK_STR(s.said.p, "parish.md, 2 pages (1 to 2)\n"
	                    "   1  The parish                                                p. 1\n"
	                    "   2    The bridge                                              p. 1\n"
	                    "   3    The mill                                                p. 2\n");
	do_line_in(&s, files, "/read %/plain.txt");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	do_line(&s, "/outline plain");
	CHECK_STR(s.said.p, "plain.txt: no headings\n");
	do_line(&s, "/outline 1");
	CHECK(has(&s.said, "The mill") && !has(&s.said, "plain.txt"));
	do_line(&s, "/outline 3");
	CHECK(has(&s.errors, "there is no document '3'"));
	close_scene(&s);
	remove_files();
	cleanup();
}

static void goes_to(struct scene *s, const char *line, const char *begins)
{
	do_line(s, line);
	CHECK_MSG(s->said.n && !strncmp(s->said.p, begins, strlen(begins)), "%s: %s%s", line,
	          s->said.n ? s->said.p : "", s->errors.n ? s->errors.p : "");
}

static size_t shown_doc, shown_from, shown_to;
static void on_document(struct chat *c, size_t i, size_t from, size_t to)
{
	(void)c;
	shown_doc = i;
	shown_from = from;
	shown_to = to;
}

TEST(goto_finds_pages_headings_and_words)
{
	struct front pane = front;
	struct scene s;

	make_files();
	put_text("parish.md", parish);
	put_text("other book.md", "# Other\n\ntext\n\f## The end\n\nof it\n");
	open_scene(&s, "-n 2 --private --chat-template chatml --kv full -c 2000");
	do_line_in(&s, files, "/read %/parish.md");
	goes_to(&s, "/goto 2", "parish.md, p. 2, \"The bridge\"\nMore of it.\n\n## The mill\n\nIt grinds barley.\n");
	goes_to(&s, "/goto p2", "parish.md, p. 2, ");
	goes_to(&s, "/goto page 1", "parish.md, p. 1, \"The parish\"\n# The parish\n");
	goes_to(&s, "/goto #2", "parish.md, p. 1, \"The bridge\"\n## The bridge\n");
	goes_to(&s, "/goto 3", "parish.md, p. 2, \"The mill\"\n"); /* there is no page 3: the heading with number 3 */
	goes_to(&s, "/goto the MILL", "parish.md, p. 2, \"The mill\"\n## The mill\n");
	goes_to(&s, "/goto built in", "parish.md, p. 1, \"The bridge\"\nbuilt in 1847.\n");
	goes_to(&s, "/goto 0%", "parish.md, p. 1, ");
	goes_to(&s, "/goto parish", "parish.md, p. 1, \"The parish\"");
	do_line(&s, "/goto 140%");
	CHECK(has(&s.errors, "no document has the page, heading or words '140%'"));
	do_line(&s, "/goto 99");
	CHECK(has(&s.errors, "no document has the page, heading or words '99'"));
	do_line(&s, "/goto");
	CHECK(has(&s.errors, "/goto wants a page"));
	/* With several documents, the user names one. */
	do_line_in(&s, files, "/read %/other book.md");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	do_line(&s, "/goto 2");
	CHECK(has(&s.errors, "2 documents have '2'; name one: /goto 1 2"));
	goes_to(&s, "/goto 2 2", "other book.md, p. 2, \"The end\"\n");
	goes_to(&s, "/goto \"other book.md\" Other", "other book.md, p. 1, \"Other\"\n");
	goes_to(&s, "/goto the end", "other book.md, p. 2, ");
	/* A front end with a document pane gets the byte range. */
	pane.document = on_document;
	s.c.front = &pane;
	do_line(&s, "/goto the mill");
	CHECK(shown_doc == 0 && !strncmp(parish + shown_from, "## The mill\n", shown_to - shown_from + 1) && !s.said.n);
	close_scene(&s);
	remove_files();
	cleanup();
}

/* ---- files that change ---- */

static const char *body(const struct scene *s, size_t i)
{
	static char text[200];
	const struct document *d = &s->c.conv.doc[i];

	snprintf(text, sizeof text, "%.*s", (int)d->n_body, d->text.p + d->body);
	return text;
}

static void set_time(const char *name, long seconds)
{
	char path[200];
	struct timespec at[2] = { { .tv_sec = seconds }, { .tv_sec = seconds } };

	snprintf(path, sizeof path, "%s/%s", files, name);
	CHECK(!utimensat(AT_FDCWD, path, at, 0));
}

TEST(a_file_that_changes_is_noticed_once_and_read_anew)
{
	static const char notice[] =
		"[the file of document 'a.txt' has changed since it was read; /open /tmp/weir-files-";
	struct scene s;

	make_files();
	put_text("a.txt", "first\n");
	put_text("b.txt", "other\n");
	set_time("a.txt", 1000);
	open_scene(&s, "-n 2 -s changes --chat-template chatml --kv full -c 2000");
	s.c.o.quiet = 0;
	do_line_in(&s, files, "/read %/a.txt");
	do_line_in(&s, files, "/read %/b.txt");
	/* The file's time has changed, its bytes have not: no notice. */
	set_time("a.txt", 2000);
	do_line(&s, "a question");
	CHECK(!has(&s.said, "has changed"));
	put_text("a.txt", "third\n");
	set_time("a.txt", 3000);
	do_line(&s, "a question");
	CHECK(has(&s.said, notice));
	do_line(&s, "a question");
	CHECK(!has(&s.said, "has changed"));
	CHECK_STR(body(&s, 0), "first\n");
	close_scene(&s);

	/* A later run notices the change, too. The new version takes the place of the old one. */
	open_scene(&s, "-n 2 -s changes --chat-template chatml --kv full -c 2000");
	s.c.o.quiet = 0;
	CHECK_INT(s.c.conv.n_doc, 2);
	chat_look_at_files(&s.c);
	CHECK(has(&s.said, notice));
	do_line_in(&s, files, "/read %/a.txt");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	CHECK(has(
		&s.said,
		"document 'a.txt' is read anew and takes the place of what was read before; /undo\n[1 document anew: "));
	CHECK(s.c.conv.n_doc == 2 && !strcmp(body(&s, 0), "third\n") && !strcmp(s.c.conv.doc[1].name, "b.txt"));
	do_line(&s, "/undo");
	CHECK(has(&s.said, "[document 'a.txt' is again as it was before it was read anew"));
	CHECK(s.c.conv.n_doc == 2 && !strcmp(body(&s, 0), "first\n"));
	do_line(&s, "/redo");
	CHECK(s.c.conv.n_doc == 2 && !strcmp(body(&s, 0), "third\n"));
	do_line(&s, "/undo");
	do_line(&s, "/redo");
	do_line(&s, "a question");
	CHECK(!has(&s.said, "has changed"));
	do_line(&s, "/undo"); /* undoes the question; the document stays replaced */
	CHECK_STR(body(&s, 0), "third\n");
	close_scene(&s);

	/* The session has each document once, in its current version and the old order. */
	open_scene(&s, "-n 2 -s changes --chat-template chatml --kv full -c 2000");
	CHECK(s.c.conv.n_doc == 2 && !strcmp(body(&s, 0), "third\n") && !strcmp(s.c.conv.doc[1].name, "b.txt"));
	/* A deleted file is not reported as changed. If the new version of a file cannot be read, the document
	 * stays. */
	put("b.txt", "\0\1\2\0", 4);
	do_line_in(&s, files, "/read %/b.txt");
	CHECK(s.errors.n && s.c.conv.n_doc == 2 && !strcmp(body(&s, 1), "other\n"));
	remove_files();
	str_clear(&s.said);
	chat_look_at_files(&s.c);
	CHECK(!has(&s.said, "has changed"));
	close_scene(&s);
	cleanup();
}

/* A version that does not fit leaves the old one as it was. */
TEST(a_version_that_does_not_fit_changes_nothing)
{
	struct tokens before = { 0 }, after = { 0 };
	struct str long_text = { 0 };
	struct err e = { 0 };
	struct scene s;

	make_files();
	put_text("a.txt", "first\n");
	for (int i = 0; i < 3000; i++)
		str_addf(&long_text, "word %d ", i);
	open_scene(&s, "-n 2 --private --docs whole --chat-template chatml --kv full -c 2000");
	do_line_in(&s, files, "/read %/a.txt");
	do_line(&s, "a question");
	CHECK(!conversation_render(&s.c.conv, 0, &before, &e));
	put_text("a.txt", long_text.p);
	do_line_in(&s, files, "/read %/a.txt");
	CHECK(has(&s.errors, "does not fit"));
	CHECK_STR(body(&s, 0), "first\n");
	CHECK(!conversation_render(&s.c.conv, 0, &after, &e) && before.n == after.n &&
	      !memcmp(before.id, after.id, before.n * sizeof *before.id));
	do_line(&s, "/undo");
	CHECK_INT(s.c.conv.n_msg, 0);
	tokens_free(&before);
	tokens_free(&after);
	str_free(&long_text);
	close_scene(&s);
	remove_files();
	cleanup();
}

/* ---- what other sessions have read ---- */

TEST(what_another_session_has_read_is_at_hand)
{
	struct scene s;

	make_files();
	put_text("parish.md", parish);
	put_text("b.txt", "other\n");
	open_scene(&s, "-n 2 -s first --chat-template chatml --kv full -c 2000");
	do_line_in(&s, files, "/read %");
	do_line(&s, "a question");
	close_scene(&s);
	remove_files(); /* the documents of the session do not need the files */

	open_scene(&s, "-n 2 -s second --chat-template chatml --kv full -c 2000");
	s.c.o.quiet = 0;
	do_line(&s, "/docs");
	CHECK(has(&s.said, "read by other sessions; /open #N adds one at once:\n  #") && has(&s.said, "  parish.md ") &&
	      has(&s.said, "2 pages, ") && has(&s.said, "b.txt"));
	do_line(&s, "/read parish.md");
	CHECK_MSG(!s.errors.n, "%s", s.errors.p);
	CHECK(s.c.conv.n_doc == 1 && s.c.conv.doc[0].n_body == sizeof parish - 1 &&
	      !memcmp(body(&s, 0), parish, sizeof parish - 1));
	do_line(&s, "/outline");
	CHECK(has(&s.said, "3    The mill                                                p. 2"));
	do_line(&s, "/docs");
	CHECK(has(&s.said, "  1  parish.md") && has(&s.said, "b.txt") &&
	      !strstr(strstr(s.said.p, "read by other"), "parish.md"));
	do_line(&s, "/read #999");
	CHECK(has(&s.errors, "no session has a document '#999'"));
	do_line(&s, "/read nowhere.txt");
	CHECK(has(&s.errors, "cannot be opened"));
	CHECK_INT(s.c.conv.n_doc, 1);
	close_scene(&s);
	/* A private conversation does not see the documents of sessions. */
	open_scene(&s, "-n 2 --private --chat-template chatml --kv full -c 2000");
	do_line(&s, "/docs");
	CHECK_STR(s.said.p, "[there is no document; /open FILE adds one]\n");
	do_line(&s, "/read parish.md");
	CHECK(has(&s.errors, "cannot be opened") && !s.c.conv.n_doc);
	close_scene(&s);
	cleanup();
}

/* ---- documents that cannot be used ---- */

/* Append everything that a question depends on: the prompt, the tokens in the cache, the number of pinned tokens, and
 * the session's data. */
static void state_of(struct scene *s, struct str *out)
{
	struct conversation *conv = &s->c.conv;
	struct timeline_stats st;
	struct tokens all = { 0 };
	struct err e = { 0 };
	const int32_t *id;
	size_t n;

	str_clear(out);
	CHECK_MSG(conversation_render(conv, 0, &all, &e) == 0, "%s", e.msg);
	id = timeline_tokens(conv->tl, &n);
	timeline_stats(conv->tl, &st);
	str_addf(out,
	         "%zu documents, %zu messages, %zu undone, %d pinned, %d tokens, %zu in the prompt, %zu in the cache:",
	         conv->n_doc, conv->n_msg, conv->n_undone, conv->pinned, st.n_tokens, all.n, n);
	str_add(out, all.id, all.n * sizeof *all.id);
	str_add(out, id, n * sizeof *id);
	for (size_t i = 0; i < conv->n_doc; i++)
		str_addf(out, " %s %lld", conv->doc[i].name, (long long)conv->doc[i].stored);
	tokens_free(&all);
}

static int count_document(const struct stored_document *d, void *ud)
{
	(void)d;
	++*(int *)ud;
	return 0;
}

static void make_broken(void)
{
	struct str text = { 0 };
	char path[200];

	put("binary.txt", "\0\1\2\3\0", 5);
	put_text(
		"broken.pdf",
		"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\ntrailer << /Root 1 0 R /Encrypt 9 0 R >>\n");
	put("broken.epub", "PK\3\4\24\0\0\0\0\0broken", 16);
	put("broken.docx", "PK\3\4\24\0\0\0\0\0word/document.xml", 27);
	put("broken.gz", "\x1f\x8b\x08\0\0\0\0\0\0\3broken", 16);
	put("twice.txt.gz", "\x1f\x8b\x08\0\0\0\0\0\0\3", 10);
	put("wide.txt", "\xff\xfe\0", 3);
	put_text("no.html", "<html><script>nothing to see</script></html>");
	for (int i = 0; i < 4000; i++)
		str_addf(&text, "word %d ", i);
	put_text("long.txt", text.p);
	str_free(&text);
	snprintf(path, sizeof path, "%s/pipe", files);
	CHECK(!mkfifo(path, 0600));
	snprintf(path, sizeof path, "%s/empty", files);
	CHECK(!mkdir(path, 0700));
	put_text("closed.txt", "text");
	snprintf(path, sizeof path, "%s/closed.txt", files);
	CHECK(!chmod(path, 0));
}

TEST(a_document_that_cannot_be_used_leaves_no_trace)
{
	static const char *const policy[] = { "full", "auto", "cascade:size=96,n=3,stride=32" };
	static const char *const broken[] = {
		"binary.txt", "broken.pdf", "broken.epub", "broken.docx", "broken.gz",  "twice.txt.gz", "wide.txt",
		"no.html",    "long.txt",   "pipe",        "empty",       "closed.txt", "nothing.txt",  "nothing/*.md",
		"b*.epub",    "",
	};
	char words[120];

	for (size_t k = 0; k < LEN(policy); k++) {
		struct str before = { 0 }, after = { 0 };
		struct scene s;
		int refused = 0, kept = 0;
		struct err e = { 0 };

		make_files();
		put_text("good.txt", "The mill burned.\n");
		make_broken();
		snprintf(words, sizeof words, "-n 2 -s broken%zu --chat-template chatml --kv %s -c 400", k, policy[k]);
		open_scene(&s, words);
		do_line_in(&s, files, "/read %/good.txt");
		CHECK_MSG(!s.errors.n, "%s", s.errors.p);
		do_line(&s, "a question");
		do_line(&s, "another");
		do_line(&s, "/undo"); /* /redo must still work at the end */
		state_of(&s, &before);
		for (size_t i = 0; i < LEN(broken); i++) {
			char line[200];
			size_t had = s.c.conv.n_doc;

			snprintf(line, sizeof line, "/read %%/%s", broken[i]);
			do_line_in(&s, files, *broken[i] ? line : "/read /dev/zero");
			if (!s.errors.n) {
				/* Some files are not refused: root may read a file without read permission, and a text
				 * that exceeds the context is searched. Undo removes such a document. */
				CHECK_MSG(s.c.conv.n_doc > had || has(&s.said, "empty") ||
				                  !strcmp(broken[i], "no.html"),
				          "%s: no word about it", broken[i]);
				while (s.c.conv.n_doc > had) {
					do_line(&s, "/undo");
					undo_forget(&s.c.conv);
				}
				/* the removed document was prefilled, which has changed the cache */
				state_of(&s, &before);
				continue;
			}
			refused++;
			state_of(&s, &after);
			CHECK_MSG(before.n == after.n && !memcmp(before.p, after.p, before.n),
			          "%s after %s: %.100s, was %.100s", policy[k], broken[i], after.p, before.p);
		}
		CHECK_MSG(refused >= 10, "only %d were refused", refused);
		/* The next question prefills only its own tokens, and the session has one document. */
		do_line(&s, "a third one");
		do_line_in(&s, files, "/read %/binary.txt");
		do_line_in(&s, files, "/read %/broken.pdf");
		do_line(&s, "a fourth one");
		CHECK_MSG(!s.errors.n && s.c.conv.last.recomputed == 0, "%s", s.errors.n ? s.errors.p : "recomputed");
		CHECK(!session_documents(s.c.log->store, s.c.log->session, count_document, &kept, &e) && kept == 1);
		close_scene(&s);
		remove_files();
		cleanup();
		str_free(&before);
		str_free(&after);
	}
}
