/* tests/sessions/t_import_list.c - sessions/import/list.c: which documents a folder, a pattern or a name stands for. */
#include "sessions/import/import.h"
#include "tests/lib/test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/weir-list-XXXXXX";

static void put(const char *name)
{
	FILE *f = fopen(name, "w");

	CHECK(f && fputs("x", f) >= 0);
	if (f)
		fclose(f);
}

/* Check that doc_find() finds these paths, separated by blanks, or sets this error. */
static void finds(const char *what, const char *want)
{
	struct doc_paths list;
	struct err e = { 0 };
	struct str got = { 0 };

	if (doc_find(what, &list, &e)) {
		CHECK_INT(e.code, ERR_DOCUMENT);
		str_adds(&got, e.msg);
	} else {
		for (size_t i = 0; i < list.n; i++)
			str_addf(&got, "%s%s", i ? " " : "", list.at[i].path);
		doc_paths_free(&list);
	}
	CHECK_STR(str_text(&got), want);
	str_free(&got);
}

TEST(folders_and_patterns)
{
	CHECK(mkdtemp(dir) && !chdir(dir));
	CHECK(!mkdir("f", 0700) && !mkdir("f/sub", 0700) && !mkdir("f/.git", 0700) && !mkdir("empty", 0700) &&
	      !mkdir("d.md", 0700));
	put("f/b.txt");
	put("f/a.md");
	put("f/sub/c.pdf");
	put("f/sub/p.PNG");
	put("f/sub/d.fb2.zip");
	put("f/sub/e.zip");
	put("f/.hidden");
	put("f/.git/config");
	put("x[1].md");
	CHECK(!symlink("f/a.md", "f/link.md") && !symlink("..", "f/sub/up"));

	finds("f", "f/a.md f/b.txt f/sub/c.pdf f/sub/d.fb2.zip");
	CHECK(!symlink("f", "linked"));
	finds("linked", "linked/a.md linked/b.txt linked/sub/c.pdf linked/sub/d.fb2.zip");
	finds("f/*.md", "f/a.md f/link.md");
	put("p.png");
	finds("*.png", "p.png"); /* a pattern may name pictures */
	finds("?.none", "no file is named like '?.none'");
	finds("*.md", "x[1].md");
	finds("x[1].md", "x[1].md");
	finds("f/b.txt", "f/b.txt");
	finds("missing", "missing");
	finds("-", "-");
	finds("http://127.0.0.1/*", "http://127.0.0.1/*");
	finds("empty", "folder 'empty' holds no documents");
}

TEST(too_many)
{
	char name[32];

	CHECK(!mkdir("many", 0700));
	for (int i = 0; i <= DOC_PATHS_MAX; i++) {
		snprintf(name, sizeof name, "many/%d.txt", i);
		CHECK(!link("x[1].md", name));
	}
	finds("many", "more than 20000 documents at once: name a smaller folder");
	CHECK(!unlink("many/20000.txt"));
	{
		struct doc_paths list;
		CHECK(!doc_find("many", &list, NULL));
		CHECK_INT(list.n, DOC_PATHS_MAX);
		CHECK_STR(list.at[1].path, "many/1.txt");
		doc_paths_free(&list);
	}
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	CHECK(f && fputs(text, f) >= 0);
	if (f)
		fclose(f);
}

/* Check which files of the current folder are listed if its .gitignore has these patterns. */
static void keeps(const char *patterns, const char *want)
{
	write_file(".gitignore", patterns);
	finds(".", want);
}

TEST(gitignore)
{
	CHECK(!mkdir("g", 0700) && !chdir("g") && !mkdir("a", 0700) && !mkdir("a/b", 0700) && !mkdir("b", 0700));
	put("x.c");
	put("x.log");
	put("a/x.log");
	put("a/b/x.c");
	put("b/[1].c");
	put("b/end ");

	keeps("", "./a/b/x.c ./a/x.log ./b/[1].c ./b/end  ./x.c ./x.log");
	keeps("# all\n\n*.log\r\n", "./a/b/x.c ./b/[1].c ./b/end  ./x.c");
	keeps("/*.log", "./a/b/x.c ./a/x.log ./b/[1].c ./b/end  ./x.c");
	keeps("*.log\n!a/x.log\n", "./a/b/x.c ./a/x.log ./b/[1].c ./b/end  ./x.c");
	keeps("b/   \n", "./a/x.log ./x.c ./x.log");
	keeps("/b/", "./a/b/x.c ./a/x.log ./x.c ./x.log");
	keeps("a/b", "./a/x.log ./b/[1].c ./b/end  ./x.c ./x.log");
	keeps("x.c/", "./a/b/x.c ./a/x.log ./b/[1].c ./b/end  ./x.c ./x.log");
	keeps("a/**/x.c", "./a/x.log ./b/[1].c ./b/end  ./x.c ./x.log");
	keeps("a/**", "./b/[1].c ./b/end  ./x.c ./x.log");
	keeps("**/b/x.c\n", "./a/x.log ./b/[1].c ./b/end  ./x.c ./x.log");
	keeps("a/*.c", "./a/b/x.c ./a/x.log ./b/[1].c ./b/end  ./x.c ./x.log");
	keeps("\\[1].c\nend\\ \n", "./a/b/x.c ./a/x.log ./x.c ./x.log");
	keeps("[x.c\n", "./a/b/x.c ./a/x.log ./b/[1].c ./b/end  ./x.c ./x.log");
	/* a file in an ignored folder stays ignored */
	keeps("a\n!a/x.log\n", "./b/[1].c ./b/end  ./x.c ./x.log");
	/* the .gitignore of the deepest folder decides */
	write_file("a/.gitignore", "!x.log\nx.c\n");
	keeps("*.log\n", "./a/x.log ./b/[1].c ./b/end  ./x.c");
	/* a .gitignore of a folder above is used only inside a repository */
	CHECK(!chdir("a"));
	finds(".", "./x.log");
	CHECK(!unlink(".gitignore"));
	finds(".", "./b/x.c ./x.log");
	CHECK(!mkdir("../.git", 0700));
	finds(".", "./b/x.c");
	CHECK(!chdir(".."));
	/* a .gitignore that is a link is not used */
	CHECK(!rename(".gitignore", "a/ignore") && !symlink("a/ignore", ".gitignore"));
	finds(".", "./a/b/x.c ./a/ignore ./a/x.log ./b/[1].c ./b/end  ./x.c ./x.log");
	CHECK(!chdir(".."));
}

TEST(tidy_up)
{
	static const char rm[] = "rm -rf";
	char command[64];

	CHECK(!chdir("/"));
	snprintf(command, sizeof command, "%s %s", rm, dir);
	CHECK(!system(command));
}
