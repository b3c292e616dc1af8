/* tests/sessions/t_import_ocr.c - pages without text and pictures (ocr*.c, pdf_scan.c, picture.c), with programs that
 * stand in for pdftotext, pdftoppm and tesseract.
 *
 * The programs are this one, started under another name. A document is "%PDF-1.4" and a line for each page: "text
 * WORDS", "glyphs", or "scan WORDS" for a page without text, on which tesseract reads the words. Words may also say
 * what tesseract does instead: "hang", "crash", "fail", "endless", "open FILE". */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char dir[] = "/tmp/weir-ocr-XXXXXX";

/* ---- the programs ---- */

static char input[1 << 16];
static size_t n_input;

static void read_input(void)
{
	ssize_t got;

	while (n_input < sizeof input - 1 && (got = read(0, input + n_input, sizeof input - 1 - n_input)) > 0)
		n_input += (size_t)got;
}

/* Return line i of the document, from 1, without its end; NULL: there is none. */
static char *page_line(int i)
{
	char *p = input;

	for (; p && i > 0; i--)
		p = (p = strchr(p, '\n')) ? p + 1 : NULL;
	if (!p || !*p)
		return NULL;
	p[strcspn(p, "\n")] = 0;
	return p;
}

static void print_words(const char *words)
{
	float x = 40;

	printf("<flow><block><line xMin=\"40\" yMin=\"40\" xMax=\"400\" yMax=\"50\">\n");
	for (const char *w = words; *w; w += strcspn(w, " "), w += *w == ' ') {
		int n = (int)strcspn(w, " ");
		printf("<word xMin=\"%.1f\" yMin=\"40\" xMax=\"%.1f\" yMax=\"50\">%.*s</word>\n", x, x + 5 * (float)n,
		       n, w);
		x += 5 * (float)n + 4;
	}
	printf("</line></block></flow>\n");
}

static int as_pdftotext(void)
{
	char copy[sizeof input], *line;

	read_input();
	memcpy(copy, input, sizeof copy);
	for (int i = 1; (line = page_line(i)); i++) {
		printf("<page width=\"600\" height=\"800\">\n");
		if (!strncmp(line, "text ", 5))
			print_words(line + 5);
		else if (!strncmp(line, "glyphs", 6))
			print_words("ǡ ǡ Ǥ ǡ");
		printf("</page>\n");
		memcpy(input, copy, sizeof copy);
	}
	return 0;
}

static const char *value_of(int argc, char **argv, const char *option)
{
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], option))
			return argv[i + 1];
	return "";
}

/* Print the words of the page as its picture. */
static int as_pdftoppm(int argc, char **argv)
{
	char *line;

	read_input();
	if (strcmp(value_of(argc, argv, "-r"), "300") != 0 ||
	    !(line = page_line((int)strtol(value_of(argc, argv, "-f"), NULL, 10))))
		return 1;
	printf("P5 %s", strchr(line, ' ') + 1);
	return 0;
}

static int as_tesseract(int argc, char **argv)
{
	char *words = input;

	read_input();
	if (strncmp(words, "P5 ", 3) != 0)
		words = memchr(input, '|', n_input);
	words = words ? words + (*words == '|' ? 1 : 3) : input + n_input;
	if (!strcmp(words, "hang"))
		for (;;)
			sleep(1);
	if (!strcmp(words, "crash"))
		raise(SIGSEGV);
	if (!strcmp(words, "fail"))
		return 1;
	while (!strcmp(words, "endless"))
		puts("and so on");
	if (!strncmp(words, "open ", 5))
		puts(open(words + 5, O_RDONLY) < 0 ? "no such file" : "opened");
	else if (!strcmp(words, "languages"))
		puts(value_of(argc, argv, "-l"));
	else
		for (char *c = words; *c; c++)
			putchar(*c == '/' ? '\n' : *c);
	putchar('\n');
	puts(value_of(argc, argv, "-c"));
	putchar('\f');
	return 0;
}

__attribute__((constructor)) static void act(int argc, char **argv)
{
	const char *name = argc && strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : "";
	int rc = !strcmp(name, "pdftotext")   ? as_pdftotext()
	         : !strcmp(name, "pdftoppm")  ? as_pdftoppm(argc, argv)
	         : !strcmp(name, "tesseract") ? as_tesseract(argc, argv)
	                                      : -1;

	if (rc < 0)
		return;
	fflush(stdout);
	_exit(rc);
}

/* ---- the tests ---- */

static struct str seen; /* pages of which progress was shown: "1/2 2/2 " */
static int stop_at;     /* the page at which the user stops; 0 = none */
static double stopped_at;

static void on_page(int32_t page, int32_t pages, double left, void *ud)
{
	(void)left, (void)ud;
	str_addf(&seen, "%d/%d ", page, pages);
	if (page == stop_at)
		stopped_at = now_seconds() + 0.2;
}

static int is_stopped(void)
{
	return stopped_at > 0 && now_seconds() > stopped_at;
}

static void file_make(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	close(fd);
}

/* Set PATH to the stand-ins, and the options of recognition. keeps: 1 = recognised pages are kept. */
static void begin(const char *languages, int keeps)
{
	static int begun;
	static char kept[64], path[64], self[4096];
	ssize_t n = begun ? 0 : readlink("/proc/self/exe", self, sizeof self - 1);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("the stand-ins have the sanitizer's own start, which the jail forbids");
#endif
	str_clear(&seen);
	stop_at = 0;
	stopped_at = 0;
	if (!begun++) {
		CHECK(n > 0 && mkdtemp(dir) && !chdir(dir));
		CHECK(!symlink(self, "pdftotext") && !symlink(self, "pdftoppm") && !symlink(self, "tesseract"));
		CHECK(!mkdir("data", 0700));
		file_make("data/eng.traineddata");
		file_make("data/deu.traineddata");
		file_make("data/osd.traineddata");
		snprintf(kept, sizeof kept, "%s/kept", dir);
		snprintf(path, sizeof path, "%s/data", dir);
		setenv("TESSDATA_PREFIX", path, 1);
	}
	setenv("PATH", dir, 1);
	doc_stop_when(is_stopped);
	doc_recognise_by(&(struct doc_recognition){ languages, keeps ? kept : NULL, on_page, NULL });
}

/* Import a document. Returns its text, with "[PAGE]" or "[PAGE recognised]" where pages begin, and its notices; or the
 * error. */
static const char *imported(const char *name, const char *bytes, size_t n)
{
	static struct str out;
	struct doc d;
	struct err e = { 0 };
	size_t at = 0;

	str_clear(&out);
	if (doc_decode(name, bytes, n, &d, &e)) {
		str_adds(&out, e.msg);
		return out.p;
	}
	for (size_t i = 0; i < d.n_mark; i++) {
		const struct mark *m = &d.mark[i];
		if (m->kind != MARK_PAGE)
			continue;
		str_add(&out, d.text.p + at, m->at - at);
		str_addf(&out, "[%s%s]", m->text, m->level == PAGE_RECOGNISED ? " recognised" : "");
		at = m->at;
	}
	str_add(&out, d.text.p + at, d.text.n - at);
	str_addf(&out, "\n--\n%s", str_text(&d.notices));
	doc_free(&d);
	return out.p;
}

static const char *pdf(const char *pages)
{
	struct str s = { 0 };
	const char *got;

	str_addf(&s, "%%PDF-1.4\n%s", pages);
	got = imported("a.pdf", s.p, s.n);
	str_free(&s);
	return got;
}

TEST(pages_without_text_are_recognised)
{
	begin(NULL, 0);
	CHECK_STR(pdf("text first page\nscan second page\nscan \ntext fourth page\nglyphs fifth page\n"),
	          "[1]first page\n\n[2 recognised]second page[3]\n\n[4]fourth page\n\n[5 recognised]fifth page\n--\n"
	          "the text of pages 2, 5 was recognised (eng): it may hold errors\n1 of 5 pages holds no text: 3\n");
	CHECK_STR(seen.p, "1/3 2/3 3/3 ");
	CHECK_STR(pdf("scan one\nscan two\nscan three\n"),
	          "[1 recognised]one\n\n[2 recognised]two\n\n[3 recognised]three\n--\n"
	          "the text of pages 1-3 was recognised (eng): it may hold errors\n");
	CHECK_STR(pdf("text no page of this is a picture\n"), "[1]no page of this is a picture\n--\n");
}

/* Words that are divided at line ends are joined, unless the page has the compound; blank lines stay. */
TEST(lines_of_a_page)
{
	begin(NULL, 0);
	CHECK_STR(pdf("scan an exam-/ple and a well-known/ ///  well-/known one-//Two\n"),
	          "[1 recognised]an example and a well-known\n\nwell-\nknown one-\n\nTwo\n--\n"
	          "the text of page 1 was recognised (eng): it may hold errors\n");
	CHECK_STR(
		pdf("scan |. ; -\n"),
		"document 'a.pdf' holds no text on its 1 page: they are pictures (scanned?); tesseract recognises none");
}

/* Of lines that recur at the top of pages, the first one stays; page numbers are left out. */
TEST(running_heads_of_recognised_pages)
{
	begin(NULL, 0);
	CHECK_STR(pdf("scan The Report 1//alpha/beta/- 1 -\nscan The Report 2//gamma//2\nscan THE REPORT 3/delta/3\n"),
	          "[1 recognised]The Report 1\n\nalpha\nbeta\n\n[2 recognised]gamma\n\n[3 recognised]delta\n--\n"
	          "5 lines of running heads, feet and page numbers of recognised pages left out\n"
	          "the text of pages 1-3 was recognised (eng): it may hold errors\n");
	CHECK_STR(pdf("scan Other/alpha/1\nscan Lines/beta\nscan Here\n"),
	          "[1 recognised]Other\nalpha\n1\n\n[2 recognised]Lines\nbeta\n\n[3 recognised]Here\n--\n"
	          "the text of pages 1-3 was recognised (eng): it may hold errors\n");
}

TEST(programs_that_fail)
{
	static const char *const what[][2] = {
		{ "crash", "the parser crashed (signal 11)" },
		{ "fail", "the parser stopped (it is damaged, or needs more than 1 GiB of memory)" },
		{ "endless", "it holds too much text" },
	};

	begin(NULL, 0);
	for (size_t i = 0; i < LEN(what); i++) {
		struct str in = { 0 }, want = { 0 };
		str_addf(&in, "scan one\nscan %s\nscan three\n", what[i][0]);
		str_addf(&want,
		         "[1 recognised]one[2]\n\n[3 recognised]three\n--\n"
		         "the text of pages 1, 3 was recognised (eng): it may hold errors\n"
		         "1 of 3 pages holds no text: 2\npage 2 cannot be recognised: %s\n",
		         what[i][1]);
		CHECK_STR(pdf(in.p), want.p);
		str_free(&in);
		str_free(&want);
	}
	CHECK_STR(
		pdf("scan fail\n"),
		"document 'a.pdf' holds no text on its 1 page: they are pictures (scanned?); the parser stopped (it is "
		"damaged, or needs more than 1 GiB of memory)");
}

/* tesseract reads its languages, and no other file. */
TEST(the_jail_holds)
{
	struct str in = { 0 };

	begin(NULL, 0);
	file_make("secret");
	str_addf(&in, "scan open %s/secret\nscan open %s/data/eng.traineddata\nscan open /etc/passwd\n", dir, dir);
	CHECK_STR(pdf(in.p), "[1 recognised]no such file\n\n[2 recognised]opened\n\n[3 recognised]no such file\n--\n"
	                     "the text of pages 1-3 was recognised (eng): it may hold errors\n");
	str_free(&in);
}

TEST(a_page_is_recognised_once)
{
	static const char doc[] = "scan one\nscan \nscan three\n";
	static const char want[] = "[1 recognised]one[2]\n\n[3 recognised]three\n--\n"
				   "the text of pages 1, 3 was recognised (eng): it may hold errors\n"
				   "1 of 3 pages holds no text: 2\n";

	begin(NULL, 1);
	CHECK_STR(pdf(doc), want);
	CHECK_STR(seen.p, "1/3 2/3 3/3 ");
	begin(NULL, 1);
	CHECK_STR(pdf(doc), want);
	CHECK_STR(str_text(&seen), "");
	begin("deu", 1); /* with other languages, kept pages are not used */
	pdf(doc);
	CHECK_STR(str_text(&seen), "1/3 2/3 3/3 ");
	begin(NULL, 0); /* nothing is kept */
	pdf(doc);
	CHECK_STR(str_text(&seen), "1/3 2/3 3/3 ");
}

TEST(pages_of_deleted_documents_are_forgotten)
{
	static const char one[] = "%PDF-1.4\nscan one\n", two[] = "%PDF-1.4\nscan two\n";
	uint8_t hash[1][32];

	begin(NULL, 1);
	imported("one.pdf", one, sizeof one - 1);
	imported("two.pdf", two, sizeof two - 1);
	CHECK(EVP_Digest(one, sizeof one - 1, hash[0], NULL, EVP_sha256(), NULL) == 1);
	doc_recognised_prune("kept", (const uint8_t(*)[32])hash, 1);
	begin(NULL, 1);
	imported("one.pdf", one, sizeof one - 1);
	CHECK_STR(str_text(&seen), "");
	imported("two.pdf", two, sizeof two - 1);
	CHECK_STR(str_text(&seen), "1/1 ");
	doc_recognised_prune("kept", NULL, 0);
	doc_recognised_prune("no such folder", NULL, 0);
	begin(NULL, 1);
	imported("one.pdf", one, sizeof one - 1);
	CHECK_STR(str_text(&seen), "1/1 ");
}

/* A page is recognised again if a crash has cut off its record in the file of kept pages. */
TEST(kept_pages_that_are_damaged)
{
	static const char doc[] = "scan alpha\nscan beta\n";

	begin(NULL, 1);
	pdf(doc);
	for (int cut = 1; cut < 16; cut += 3) {
		struct str command = { 0 };
		str_addf(&command, "for f in kept/*; do truncate -s -%d \"$f\"; done", cut);
		setenv("PATH", "/usr/bin:/bin", 1);
		CHECK(!system(command.p));
		str_free(&command);
		begin(NULL, 1);
		CHECK_STR(pdf(doc), "[1 recognised]alpha\n\n[2 recognised]beta\n--\n"
		                    "the text of pages 1-2 was recognised (eng): it may hold errors\n");
		CHECK_STR(seen.p, cut < 10 ? "2/2 " : "1/2 2/2 ");
	}
}

TEST(the_user_stops_it)
{
	double begun;

	begin(NULL, 1);
	stop_at = 2;
	CHECK_STR(pdf("scan kept\nscan hang\nscan last\n"),
	          "document 'a.pdf' was not read: stopped; 1 recognised page is kept");
	CHECK_STR(seen.p, "1/3 2/3 ");
	CHECK_MSG(now_seconds() - stopped_at < 0.8 * test_patience(), "%.2f s", now_seconds() - stopped_at);
	begin(NULL, 1);
	stop_at = 2;
	begun = now_seconds();
	pdf("scan kept\nscan hang\nscan last\n");
	CHECK_STR(seen.p, "2/3 "); /* page 1 was kept */
	CHECK(now_seconds() - begun < 1 + test_patience());
}

TEST(languages)
{
	static const char german[] = "<< /Type /Catalog /Lang (de-AT) >>\nscan languages\n",
			  french[] = "<< /Type /Catalog /Lang (fr) >>\nscan languages\n";

	begin(NULL, 0);
	CHECK(strstr(pdf(german), "recognised]deu\n--\n"));
	CHECK(strstr(pdf(french),
	             "recognised]eng\n--\ninstall tesseract-ocr-fra: the document's language is 'fr', for which "
	             "tesseract has no data\n"));
	begin("deu+eng", 0);
	CHECK(strstr(pdf(french), "recognised]deu+eng\n--\nthe text"));
	begin("eng+chi_sim", 0);
	CHECK_STR(pdf("text x\nscan y\n"), "[1]x[2]\n--\n1 of 2 pages holds no text (scanned?): 2; install "
	                                   "tesseract-ocr-chi-sim: tesseract has no data for the language 'chi_sim'\n");
	begin("../secret", 0);
	CHECK(strstr(pdf("scan y\n"), "'../secret' names no languages as tesseract does"));
}

/* Check the language of a PDF with these objects in a compressed object stream. cut: bytes left out at its end. */
static void packed_language(const char *objects, size_t cut, const char *want)
{
	Bytef packed[400];
	uLongf n = sizeof packed;
	struct str pdf = { 0 }, language = { 0 };

	CHECK_INT(compress(packed, &n, (const Bytef *)objects, strlen(objects)), Z_OK);
	str_adds(&pdf,
	         "%PDF-1.5\n1 0 obj <</Type/ObjStm/N 2>>stream\r\nx\nendstream\n2 0 obj <</Type /ObjStm>>\nstream\r\n");
	str_add(&pdf, (const char *)packed, n - cut);
	pdf_language(pdf.p, pdf.n, &language);
	CHECK_STR(str_text(&language), want);
	str_free(&pdf);
	str_free(&language);
}

TEST(language_of_a_compressed_catalog)
{
	packed_language("3 0 4 9 <</Pages 4 0 R/Lang (de-AT)/Type/Catalog>> <</S /P>>", 0, "de-AT");
	packed_language("<</Type /Catalog /Lang(x-a-very-long-name-of-it)>>", 0, "x-a-very-long-n");
	packed_language("<</Type /Catalog /Lang(en)>>                      ", 5, "en");
	packed_language("<</S /Span /Lang (en)>>", 0, "");
	packed_language("<</Type /Catalog /Lang", 0, "");
}

/* ---- pictures ---- */

#define PNG "\x89PNG\r\n\x1a\n|"

/* Write a TIFF with `pages` directories to out. circle: 1 = the last directory names the first one as the next one. */
static size_t tiff(unsigned char *out, int pages, int circle)
{
	size_t n = 8;

	memcpy(out, "II*\0\10\0\0\0", 8);
	for (int i = 0; i < pages; i++) {
		size_t next = i + 1 < pages ? n + 6 : circle ? 8 : 0;
		memset(out + n, 0, 6);
		out[n + 2] = (unsigned char)next;
		n += 6;
	}
	memcpy(out + n, "|picture/", 9);
	return n + 9;
}

TEST(pictures)
{
	unsigned char t[256];

	begin(NULL, 1);
	CHECK_STR(
		imported("a.png", PNG "A sign", 15),
		"[1 recognised]A sign\ntessedit_page_number=0\n--\nthe text was recognised (eng): it may hold errors\n");
	CHECK(strstr(imported("a.dat", "\xff\xd8\xff\xe0|In a photo", 15), "[1 recognised]In a photo"));
	CHECK(strstr(imported("a.png", PNG "crash", 14), "is a picture that cannot be recognised: the parser crashed"));
	CHECK_STR(
		imported("a.tif", (char *)t, tiff(t, 3, 0)),
		"[1 recognised]picture\n\ntessedit_page_number=0\n\n[2 recognised]picture\n\ntessedit_page_number=1\n\n"
		"[3 recognised]picture\n\ntessedit_page_number=2\n--\nthe text was recognised (eng): it may hold errors\n");
	imported("a.tif", (char *)t, tiff(t, 2, 1));
	CHECK(strstr(seen.p, "1/3 2/3 3/3 1/2 2/2 "));
	for (size_t n = 4; n < 20; n++)
		imported("a.tif", (char *)t, n);
}

/* ---- without programs ---- */

TEST(what_to_install)
{
	begin(NULL, 0);
	CHECK(!unlink("tesseract"));
	CHECK_STR(
		pdf("text x\nscan y\nglyphs\nscan z\nglyphs\n"),
		"[1]x[2]\n\n[3]ǡ ǡ Ǥ ǡ[4]\n\n[5]ǡ ǡ Ǥ ǡ\n--\n2 of 5 pages hold no text (scanned?): 2, 4; install "
		"tesseract-ocr, which reads pictures\npages 3, 5 hold unreadable glyphs; install tesseract-ocr, which reads "
		"pictures\n");
	CHECK_STR(pdf("scan y\nscan z\n"),
	          "document 'a.pdf' holds no text on its 2 pages: they are pictures (scanned?); "
	          "install tesseract-ocr, which reads pictures");
	CHECK_STR(imported("a.png", PNG, 9),
	          "document 'a.png' is a picture; install tesseract-ocr, which reads pictures");
	setenv("PATH", "/usr/bin:/bin", 1);
	CHECK(!chdir("/") && strstr(dir, "weir-ocr"));
	{
		struct str command = { 0 };
		str_addf(&command, "rm -r %s", dir);
		CHECK(!system(command.p));
		str_free(&command);
	}
	str_free(&seen);
}
