/* tests/sessions/t_import.c - sessions/import/import.c and sessions/import/text.c: what is read as text, and what is
 * refused with the name of its format.
 *
 * The source is included, with a hook in place of read(), so that files can shrink and disks can fail on demand. */
#include <stdio.h>
#include <unistd.h>

static ssize_t hooked_read(int fd, void *buf, size_t n);
#define read hooked_read
#include "sessions/import/import.c"
#include "sessions/import/text.c"
#undef read

#include "tests/lib/test.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- hooks and helpers ---- */

static int fail_errno, fail_after = -1, short_reads, interrupts;
static long end_after = -1; /* read() reports the end of the file after this many bytes */

static ssize_t hooked_read(int fd, void *buf, size_t n)
{
	if (interrupts > 0) {
		interrupts--;
		errno = EINTR;
		return -1;
	}
	if (fail_after == 0) {
		errno = fail_errno;
		return -1;
	}
	if (fail_after > 0)
		fail_after--;
	if (short_reads && n > 3)
		n = 3;
	if (end_after >= 0) {
		ssize_t got = read(fd, buf, n < (size_t)end_after ? n : (size_t)end_after);
		end_after -= MAX(got, 0);
		return got;
	}
	return read(fd, buf, n);
}

static char dir[64];

static const char *in_dir(const char *name)
{
	static char path[4][256];
	static int turn;
	char *p = path[turn++ & 3];

	if (!dir[0]) {
		snprintf(dir, sizeof dir, "%s/weir-import-XXXXXX",
		         getenv("TMPDIR") && strlen(getenv("TMPDIR")) < 40 ? getenv("TMPDIR") : "/tmp");
		if (!mkdtemp(dir))
			dir[0] = 0;
	}
	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

static const char *write_file(const char *name, const void *bytes, size_t n)
{
	const char *path = in_dir(name);
	FILE *f = fopen(path, "wb");

	CHECK(f && fwrite(bytes, 1, n, f) == n);
	if (f)
		fclose(f);
	return path;
}

/* Check that the file is refused with ERR_DOCUMENT and a message with this part and the last part of the name. */
static void refused(const char *path, const char *part)
{
	struct doc d;
	struct err e = { 0 };
	const char *base = strrchr(path, '/');

	CHECK_MSG(doc_read(path, &d, &e) == -1, "%s is not refused", path);
	CHECK_INT(e.code, ERR_DOCUMENT);
	CHECK_MSG(strstr(e.msg, part) != NULL, "\"%s\" lacks \"%s\"", e.msg, part);
	CHECK_MSG(!strcmp(path, "-") || strstr(e.msg, base ? base : path), "\"%s\" does not name %s", e.msg, path);
	CHECK_MSG(e.msg[strlen(e.msg) - 1] != '.', "\"%s\"", e.msg);
	CHECK(!d.text.p && !d.name && !d.notices.p);
}

static void refused_bytes(const void *bytes, size_t n, const char *part)
{
	refused(write_file("refused", bytes, n), part);
}
#define REFUSED(s, part) refused_bytes(s, sizeof s - 1, part)

/* Check that the bytes are read as this text in this encoding, with a notice that has this part (NULL = no notice). */
static void reads(const void *bytes, size_t n, const char *want, size_t want_n, const char *encoding,
                  const char *notice)
{
	struct doc d;
	struct err e = { 0 };

	CHECK_MSG(!doc_read(write_file("text.txt", bytes, n), &d, &e), "%s", e.msg);
	if (e.code)
		return;
	CHECK_MSG(d.text.n == want_n && !memcmp(d.text.p, want, want_n), "got \"%s\", expected \"%s\"", d.text.p, want);
	CHECK(!d.text.p[d.text.n]);
	CHECK_STR(d.encoding, encoding);
	CHECK_STR(d.name, "text.txt");
	CHECK_INT(d.bytes, n);
	if (notice)
		CHECK_MSG(d.notices.p && strstr(d.notices.p, notice), "notices \"%s\" lack \"%s\"", d.notices.p,
		          notice);
	else
		CHECK_MSG(!d.notices.n, "unexpected notice \"%s\"", d.notices.p);
	for (size_t i = 0; i < d.text.n;) {
		int32_t cp;
		i += (size_t)utf8_decode(d.text.p + i, d.text.n - i, &cp);
		CHECK(cp > 0);
	}
	doc_free(&d);
	CHECK(!d.text.p && !d.name);
}
#define READS(s, want, enc, notice) reads(s, sizeof s - 1, want, sizeof want - 1, enc, notice)

#define FFFD                        "\xef\xbf\xbd"

/* ---- encodings ---- */

TEST(encodings)
{
	READS("hello\n", "hello\n", "UTF-8", NULL);
	READS("caf\xc3\xa9", "caf\xc3\xa9", "UTF-8", NULL);
	READS("\xef\xbb\xbf"
	      "caf\xc3\xa9",
	      "caf\xc3\xa9", "UTF-8", NULL);
	READS("caf\xe9 \x93quoted\x94 \x80 5", "caf\xc3\xa9 \xe2\x80\x9cquoted\xe2\x80\x9d \xe2\x82\xac 5",
	      "Windows-1252", "not UTF-8");
	READS("caf\xe9 \x81", "caf\xc3\xa9 " FFFD, "Windows-1252", "1 byte sequence that cannot be decoded was");
	READS("\xff\xfe"
	      "h\0i\0\xac\x20\x3d\xd8\xa9\xdc",
	      "hi\xe2\x82\xac\xf0\x9f\x92\xa9", "UTF-16LE", NULL);
	READS("\xfe\xff"
	      "\0h\0i\x20\xac\xd8\x3d\xdc\xa9",
	      "hi\xe2\x82\xac\xf0\x9f\x92\xa9", "UTF-16BE", NULL);
	READS("\xff\xfe"
	      "h\0\x3d\xd8i\0\xa9\xdcx",
	      "h" FFFD "i" FFFD FFFD, "UTF-16LE", "3 byte sequences that cannot be decoded were");
	READS("\xfe\xff"
	      "\0h\0\r\0\n\0i\0\r\0j",
	      "h\ni\nj", "UTF-16BE", NULL);
	READS("\xff\xfe"
	      "a\0\0\xdc"
	      "b\0\0\xd8",
	      "a" FFFD "b" FFFD, "UTF-16LE", "2 byte sequences that cannot be decoded were");
	READS("\xfe\xff"
	      "\0a\xdb\xff\xdf\xff\0\r\0b",
	      "a\xf4\x8f\xbf\xbf\nb", "UTF-16BE", NULL);
	/* UTF-16 without a byte order mark is recognised by the NUL bytes of its ASCII characters */
	READS("h\0i\0,\0 \0\xac\x20\n\0", "hi, \xe2\x82\xac\n", "UTF-16LE", "a guess");
	READS("\0h\0i\x30\x42\0\r\0\n\xd8\x3d\xdc\xa9", "hi\xe3\x81\x82\n\xf0\x9f\x92\xa9", "UTF-16BE", "a guess");
	READS("mail: \x1b$B\x24\x22\x24\x24\x1b(B.\n", "mail: \xe3\x81\x82\xe3\x81\x84.\n", "ISO-2022-JP", "a guess");
	/* UTF-8 with a few damaged bytes is still taken for UTF-8 */
	READS("\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 \xff!",
	      "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 " FFFD "!", "UTF-8",
	      "1 byte sequence");
	READS("na\xc3\xafve, cut of\xc3", "na\xc3\xafve, cut of" FFFD, "UTF-8", "1 byte sequence");
	READS("\xef\xbb\xbf"
	      "a\xff"
	      "b",
	      "a" FFFD "b", "UTF-8", "1 byte sequence");
	/* overlong forms and surrogates are not UTF-8 */
	READS("\xed\xa0\x80 \xc0\xaf", "\xc3\xad\xc2\xa0\xe2\x82\xac \xc3\x80\xc2\xaf", "Windows-1252", "not UTF-8");
}

TEST(line_ends)
{
	READS("a\r\nb\nc\rd\r\r\n", "a\nb\nc\nd\n", "UTF-8", NULL);
	READS("old\rMac\r", "old\nMac\n", "UTF-8", NULL);
	READS("a\r\nb\r", "a\nb", "UTF-8", NULL);
	READS("x\f\ty\v\x1b[31mz\x07", "x\f\ty\vz", "UTF-8", "1 escape sequence was left out");
}

TEST(nul_bytes)
{
	char text[5000];

	memset(text, 'a', sizeof text);
	text[100] = text[200] = 0;
	{
		struct doc d;
		struct err e = { 0 };
		CHECK_MSG(!doc_read(write_file("nul.txt", text, sizeof text), &d, &e), "%s", e.msg);
		CHECK_INT(d.text.n, sizeof text);
		CHECK(d.text.p[100] == ' ');
		CHECK(strstr(d.notices.p, "2 NUL characters were left out"));
		doc_free(&d);
	}
	for (int i = 1; i <= 20; i++)
		text[i * 100] = 0;
	refused_bytes(text, sizeof text, "binary file");
	REFUSED("a\0b", "binary file");
	REFUSED("a\0b\0\x01\0", "binary file"); /* a control character */
	REFUSED("a\0b\0\x3d\xd8"
	        "c\0",
	        "binary file"); /* the first half of a surrogate pair */
	REFUSED("a\0b\0\0c", "binary file");
	REFUSED("\xff\xfe"
	        "\0\0a\0",
	        "UTF-32");
	REFUSED("\xff\xfe"
	        "a\0\0\0\0\0",
	        "binary file");
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (char)(i * 7919 % 255 + 1);
	refused_bytes(text, sizeof text, "binary file");
}

/* ---- formats ---- */

TEST(formats_by_magic)
{
	REFUSED("%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", "PDF");
	REFUSED("\xef\xbb\xbf%PDF-1.4\n", "PDF");
	REFUSED("GGUF\3\0\0\0", "model");
	REFUSED("\x7f"
	        "ELF\2\1\1",
	        "program");
	REFUSED("\x1f\x8b\x08\0", "is damaged");
	REFUSED("PK\3\4 and so on", "zip archive");
	REFUSED("\x89PNG\r\n\x1a\n", "is a picture");
	REFUSED("\xff\xd8\xff\xe0", "is a picture");
	REFUSED("SQLite format 3\0", "SQLite");
	REFUSED("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "soffice");
	REFUSED("\0\0\xfe\xff\0\0\0a", "UTF-32");
	/* signatures of formats count only at the beginning of a file */
	READS("a text about %PDF-1.4 and PK\3\4\n", "a text about %PDF-1.4 and PK\3\4\n", "UTF-8", NULL);
	READS("PK", "PK", "UTF-8", NULL);
}

static void reads_shared(const char *name, const char *has)
{
	struct doc d;
	struct err e = { 0 };
	char path[80];
	int r;

	snprintf(path, sizeof path, "data/docs/%s", name);
	r = doc_read(test_shared(path), &d, &e);
	CHECK_MSG(!r, "%s: %s", name, e.msg);
	if (r)
		return;
	CHECK_STR(d.name, name);
	CHECK_MSG(strstr(d.text.p, has) != NULL, "%s lacks \"%s\"", name, has);
	CHECK(!strstr(d.text.p, "\r\n"));
	test_note("%s: %llu bytes, %s%s%s", name, (unsigned long long)d.bytes, d.encoding, d.notices.n ? ", " : "",
	          d.notices.n ? d.notices.p : "");
	doc_free(&d);
}

TEST(shared_documents)
{
	reads_shared("UTF-8-demo.txt", "STARG\xce\x9b\xcc\x8aTE SG-1");
	reads_shared("commonmark-spec.md", "CommonMark");
	reads_shared("gguf-format.md", "GGUF");
	reads_shared("zstd_compress.c", "#include");
	reads_shared("zstd_manual.html", "Levels >= 20, labeled `--ultra`");
	reads_shared("chesterton-heretics.htm", "Heretics");
	reads_shared("utf8tests.txt", "UTF-8 Test Cases");
	reads_shared("tracemonkey.pdf", "nested trace trees");
	reads_shared("rotation.pdf", "This is my second page");
	reads_shared("pdfjs-wikipedia.pdf", "Portable Document");
	reads_shared("wasteland.epub", "April is the cruellest month");
	reads_shared("childrens-literature.epub", "SUGGESTIONS FOR READING");
	reads_shared("footnotes.docx", "[1] A tachyon walks into a bar.");
	reads_shared("tables.docx", "Top left | Top right\nBottom left | Bottom right\n");
}

/* The stress file comes with the expected text: U+FFFD for each maximal part that is not UTF-8. A NUL becomes a
 * blank. */
TEST(stray_bytes)
{
	struct doc d;
	struct err e = { 0 };
	size_t n, size, to = 0;
	char *want = test_read(test_file("tests/vectors/utf8.ref"), &n);
	char *bytes = test_read(test_file("tests/vectors/utf8.bin"), &size);

	CHECK_MSG(!text_decode("utf8.bin", bytes, size, &d, &e), "%s", e.msg);
	free(bytes);
	if (e.code)
		return;
	CHECK_STR(d.encoding, "UTF-8");
	CHECK(strstr(d.notices.p, "byte sequences that cannot be decoded were replaced"));
	for (; to < n; to++)
		CHECK_MSG(to < d.text.n && d.text.p[to] == (want[to] ? want[to] : ' '), "byte %zu differs", to);
	CHECK_INT(d.text.n, to);
	doc_free(&d);
	free(want);
}

/* ---- special files, sizes, failures ---- */

TEST(empty)
{
	REFUSED("", "is empty");
	REFUSED("\xef\xbb\xbf", "is empty");
	REFUSED("\xff\xfe", "is empty");
	REFUSED(" \n\t\r\n", "only white space");
}

TEST(special_files)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0);

	refused("/dev/zero", "is a device");
	refused("/dev/null", "is a device");
	refused(dir[0] ? dir : "/tmp", "is a directory");
	refused("/proc/self/environ", "belongs to the kernel");
	refused("/proc/self/mem", "belongs to the kernel");
	refused(in_dir("missing"), "cannot be opened: No such file");
	refused("", "cannot be opened");
	CHECK(!mkfifo(in_dir("fifo"), 0600));
	alarm(300); /* ends the test if opening the pipe waits for a writer */
	refused(in_dir("fifo"), "is a pipe");
	alarm(0);
	CHECK(!symlink("/dev/zero", in_dir("zero-link")));
	refused(in_dir("zero-link"), "is a device");
	CHECK(!symlink("loop", in_dir("loop")));
	refused(in_dir("loop"), "cannot be opened");
	snprintf(a.sun_path, sizeof a.sun_path, "%s", in_dir("socket"));
	CHECK(s >= 0 && !bind(s, (struct sockaddr *)&a, sizeof a));
	refused(in_dir("socket"), "is a socket");
	close(s);
	{
		char name[260]; /* longer than any file system allows, and full of escape characters */
		memset(name, 0x1b, sizeof name - 1);
		name[sizeof name - 1] = 0;
		struct doc d;
		struct err e = { 0 };
		CHECK_INT(doc_read(name, &d, &e), -1);
		CHECK(!strchr(e.msg, 0x1b));
	}
}

TEST(symlink_to_a_text)
{
	struct doc d;
	struct err e = { 0 };

	write_file("target.txt", "text", 4);
	CHECK(!symlink("target.txt", in_dir("link.txt")));
	CHECK_MSG(!doc_read(in_dir("link.txt"), &d, &e), "%s", e.msg);
	CHECK_STR(d.name, "link.txt");
	doc_free(&d);
}

TEST(unreadable)
{
	const char *path = write_file("secret", "x", 1);

	int root = !geteuid();

	CHECK(!chmod(path, 0));
	/* root may read every file, so run this test as the user nobody */
	if (root && (chmod(dir, 0755) || seteuid(65534)))
		SKIP("cannot give up the rights of root");
	refused(path, "cannot be opened: Permission denied");
	if (root)
		CHECK(!seteuid(0));
}

TEST(size_cap)
{
	const char *path = write_file("large", "x", 1);
	struct doc d;
	struct err e = { 0 };
	char *text;

	CHECK(!truncate(path, (off_t)DOC_BYTES_MAX + 1));
	refused(path, "has 67108865 bytes, the limit is 67108864");
	if (!truncate(path, (off_t)1 << 40))
		refused(path, "has 1099511627776 bytes, the limit is 67108864");
	CHECK(!truncate(path, DOC_BYTES_MAX));
	refused(path, "binary file");
	/* a file of exactly the limit is read; a file that grows beyond the limit while it is read is refused */
	text = xmalloc(DOC_BYTES_MAX);
	memset(text, 'a', DOC_BYTES_MAX);
	path = write_file("large", text, DOC_BYTES_MAX);
	free(text);
	CHECK_MSG(!doc_read(path, &d, &e), "%s", e.msg);
	CHECK_INT(d.text.n, DOC_BYTES_MAX);
	doc_free(&d);
	unlink(path);
}

TEST(failing_reads)
{
	const char *path = write_file("shrinks", "0123456789", 10);
	struct doc d;
	struct err e = { 0 };

	end_after = 4;
	refused(path, "was cut short while it was read: 4 of 10 bytes came");
	end_after = 0;
	refused(path, "0 of 10 bytes came");
	end_after = -1;
	fail_errno = EIO;
	fail_after = 0;
	refused(path, "cannot be read: Input/output error");
	short_reads = 1;
	fail_after = 2;
	refused(path, "cannot be read: Input/output error");
	fail_after = -1;
	interrupts = 3;
	CHECK_MSG(!doc_read(path, &d, &e), "%s", e.msg);
	CHECK_STR(d.text.p, "0123456789");
	doc_free(&d);
	short_reads = interrupts = 0;
}

/* ---- standard input ---- */

/* Run doc_read("-") with fd as standard input. */
static int read_from(int fd, struct doc *d, struct err *e)
{
	int saved = dup(STDIN_FILENO), r;

	CHECK(dup2(fd, STDIN_FILENO) == 0);
	r = doc_read("-", d, e);
	CHECK(dup2(saved, STDIN_FILENO) == 0);
	close(saved);
	return r;
}

/* Start a child that writes these bytes `times` times into a pipe. Returns the reading end. */
static int writer(const char *bytes, size_t n, size_t times, pid_t *pid)
{
	int p[2];

	if (pipe(p))
		return -1;
	*pid = fork();
	if (!*pid) {
		close(p[0]);
		signal(SIGPIPE, SIG_DFL);
		while (times--)
			if (write(p[1], bytes, n) < 0)
				_exit(1);
		_exit(0);
	}
	close(p[1]);
	return p[0];
}

TEST(standard_input)
{
	static char block[65536];
	struct doc d;
	struct err e = { 0 };
	pid_t pid = 0;
	int fd, status;

	fd = writer("piped text\r\n", 12, 3, &pid);
	CHECK_MSG(!read_from(fd, &d, &e), "%s", e.msg);
	CHECK_STR(d.text.p, "piped text\npiped text\npiped text\n");
	CHECK_STR(d.name, "standard input");
	doc_free(&d);
	close(fd);
	waitpid(pid, &status, 0);

	memset(block, 'a', sizeof block);
	fd = writer(block, sizeof block, DOC_BYTES_MAX / sizeof block, &pid);
	CHECK_MSG(!read_from(fd, &d, &e), "%s", e.msg);
	CHECK_INT(d.text.n, DOC_BYTES_MAX);
	doc_free(&d);
	close(fd);
	waitpid(pid, &status, 0);

	fd = writer(block, sizeof block, DOC_BYTES_MAX / sizeof block + 1, &pid);
	CHECK_INT(read_from(fd, &d, &e), -1);
	CHECK_STR(e.msg, "document 'standard input' is longer than the limit of 67108864 bytes; split it");
	close(fd);
	waitpid(pid, &status, 0);

	fd = writer("", 0, 0, &pid);
	CHECK_INT(read_from(fd, &d, &e), -1);
	CHECK_STR(e.msg, "document 'standard input' is empty");
	close(fd);
	waitpid(pid, &status, 0);

	fd = open("/dev/zero", O_RDONLY);
	CHECK_INT(read_from(fd, &d, &e), -1);
	CHECK(strstr(e.msg, "limit of 67108864 bytes"));
	close(fd);
	fd = open("/", O_RDONLY);
	CHECK_INT(read_from(fd, &d, &e), -1);
	CHECK(strstr(e.msg, "is a directory"));
	close(fd);
	fd = open(write_file("redirected.txt", "from a file", 11), O_RDONLY);
	CHECK_MSG(!read_from(fd, &d, &e), "%s", e.msg);
	CHECK_STR(d.text.p, "from a file");
	doc_free(&d);
	close(fd);
	fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	if (fd >= 0 && isatty(fd)) {
		CHECK_INT(read_from(fd, &d, &e), -1);
		CHECK(strstr(e.msg, "is a terminal"));
	}
	if (fd >= 0)
		close(fd);
}

/* Random bytes are read as text or refused. */
TEST(random_bytes)
{
	char buf[600];
	size_t texts = 0;

	for (int i = 0; i < 20000; i++) {
		struct doc d;
		struct err e = { 0 };
		size_t n = test_rand() % sizeof buf;
		int kind = (int)(test_rand() % 4);
		for (size_t k = 0; k < n; k++)
			buf[k] = (char)(kind == 0   ? test_rand()
			                : kind == 1 ? 0x20 + test_rand() % 0xe0
			                            : 0x20 + test_rand() % 0x60);
		if (kind == 3 && n > 2)
			memcpy(buf, test_rand() & 1 ? "\xff\xfe" : "\xfe\xff", 2);
		if (doc_decode("x", buf, n, &d, &e)) {
			CHECK_INT(e.code, ERR_DOCUMENT);
			continue;
		}
		texts++;
		CHECK(d.text.n && !d.text.p[d.text.n] && strlen(d.text.p) == d.text.n);
		CHECK_INT(utf8_complete(d.text.p, d.text.n), d.text.n);
		for (size_t k = 0; k < d.text.n;) {
			int32_t cp;
			k += (size_t)utf8_decode(d.text.p + k, d.text.n - k, &cp);
			CHECK(cp > 0);
		}
		doc_free(&d);
	}
	test_note("%zu of 20000 were texts", texts);
}

TEST(tidy_up)
{
	static const char *const names[] = { "refused", "text.txt", "nul.txt",       "fifo",     "zero-link",
		                             "loop",    "socket",   "target.txt",    "link.txt", "secret",
		                             "large",   "shrinks",  "redirected.txt" };

	for (size_t i = 0; i < LEN(names); i++)
		unlink(in_dir(names[i]));
	CHECK(!rmdir(dir));
}
