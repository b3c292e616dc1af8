/* tests/app/t_lag.c - measures the program on a pseudo terminal with the default model: how soon a typed key is on the
 * screen while an answer is generated, the processor time that the cache panel costs, and the processor time of an idle
 * program.
 *
 * The delay of a key ends when the complete frame with its cell has arrived. The cost of a token is measured in
 * processor time, which other programs disturb least, and in the tokens per second that the program reports. The
 * figures are printed as notes; the checks use wide bounds that hold on a busy machine, too. WEIR is the program
 * (default ./weir). WEIR_SOAK measures longer.
 *
 * Runs alone: it measures time. */
#include "tests/lib/test.h"
#include "tests/lib/vt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { W = 100, H = 30, ROUNDS = 3, ROUNDS_SOAK = 11 };

static struct {
	pid_t pid;
	int master;
	struct vt vt;
	char home[64];
	int ended;
} p;

static void child(const char *weir, const char *model, int master)
{
	int fd = open(ptsname(master), O_RDWR);

	setsid();
	ioctl(fd, TIOCSCTTY, 0);
	for (int i = 0; i < 3; i++)
		dup2(fd, i);
	setenv("TERM", "xterm-256color", 1);
	setenv("LC_ALL", "C.UTF-8", 1);
	setenv("XDG_CONFIG_HOME", p.home, 1);
	setenv("XDG_STATE_HOME", p.home, 1);
	setenv("XDG_DATA_HOME", p.home, 1);
	setenv("INPUTRC", "/dev/null", 1);
	execl(weir, weir, "-m", model, "-s", "lag", "--temp", "0", "-n", "-1", "--loops", "go", (char *)NULL);
	_exit(127);
}

static void started(void)
{
	const char *weir = getenv("WEIR"), *model = test_model();
	struct winsize ws = { .ws_col = W, .ws_row = H };

	weir = weir ? weir : "./weir";
	if (access(weir, X_OK))
		SKIP("there is no program at %s", weir);
	setlocale(LC_ALL, "C.UTF-8");
	memset(&p, 0, sizeof p);
	p.master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (p.master < 0 || grantpt(p.master) || unlockpt(p.master) || ioctl(p.master, TIOCSWINSZ, &ws))
		SKIP("no pseudo terminals here: %s", strerror(errno));
	snprintf(p.home, sizeof p.home, "/tmp/weir-lag-XXXXXX");
	CHECK(mkdtemp(p.home) != NULL);
	vt_size(&p.vt, W, H);
	fflush(NULL);
	p.pid = fork();
	if (!p.pid)
		child(weir, model, p.master);
}

static void ended(void)
{
	char clean[100];

	kill(p.pid, SIGTERM);
	for (int i = 0; i < 1000 && waitpid(p.pid, NULL, WNOHANG) == 0; i++) {
		char buf[4096];
		struct pollfd wait = { .fd = p.master, .events = POLLIN };
		if (poll(&wait, 1, 10) > 0 && read(p.master, buf, sizeof buf) <= 0)
			nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	kill(p.pid, SIGKILL);
	waitpid(p.pid, NULL, 0);
	close(p.master);
	vt_free(&p.vt);
	snprintf(clean, sizeof clean, "rm -rf '%.60s'", p.home);
	if (system(clean)) { /* on failure only a directory is left behind */
	}
}

/* Read the program's output, and wait at most `seconds` for it. */
static void take(double seconds)
{
	struct pollfd wait = { .fd = p.master, .events = POLLIN };
	char buf[65536];
	ssize_t n;

	if (poll(&wait, 1, (int)(seconds * 1000 + 0.999)) <= 0)
		return;
	n = read(p.master, buf, sizeof buf);
	if (n > 0)
		vt_feed(&p.vt, buf, (size_t)n);
	else
		p.ended = 1;
}

static void pass(double seconds)
{
	double until = now_seconds() + seconds, left;

	while (!p.ended && (left = until - now_seconds()) > 0)
		take(left);
}

/* Return row y of the screen as ASCII. */
static const char *row(int y)
{
	static char text[W + 1];

	for (int x = 0; x < W; x++) {
		int32_t cp = p.vt.cell[y * W + x].cp;
		text[x] = (char)(cp >= ' ' && cp < 127 ? cp : '?');
	}
	text[W] = 0;
	return text;
}

static int busy(void)
{
	return !p.vt.frame && strstr(row(H - 1), "Stop") != NULL;
}
static int at_rest(void)
{
	return !p.vt.frame && strstr(row(H - 1), "Help") && !strstr(row(H - 1), "Stop");
}

static int wait_for(int (*is)(void), double seconds)
{
	double until = now_seconds() + MAX(120, seconds) * test_patience();

	while (!p.ended && !is() && now_seconds() < until)
		take(0.05);
	return is();
}

static void send(const char *bytes)
{
	CHECK(write(p.master, bytes, strlen(bytes)) == (ssize_t)strlen(bytes));
}

/* Type a line, letter by letter, so that it is no paste. */
static void type(const char *text)
{
	for (; *text; text++) {
		send((char[]){ *text, 0 });
		pass(0.004);
	}
	pass(0.05);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Make sure that a long answer is being generated. Returns 1 if it is. */
static int answering(void)
{
	for (int i = 0; i < 5; i++) {
		if (busy())
			return 1;
		send("\025");
		type("Write a very long story about a mill, a weir and a miller, with many chapters.");
		send("\r");
		if (wait_for(busy, 120))
			pass(0.7); /* until the question is prefilled */
	}
	return busy();
}

/* Type n letters at random moments while the program answers. Sets lag[] to the seconds until each letter is on the
 * screen. */
static int measure(int n, double *lag)
{
	int done = 0, column = 0;

	while (done < n && !p.ended && answering()) {
		char letter[2] = { 0 };
		double at, until;
		int x, y;

		if (column++ % 40 == 0) {
			send("\025");
			pass(0.1);
		}
		pass((double)(test_rand() % 20000) * 1e-6);
		while (p.vt.frame && !p.ended)
			take(0.05);
		x = p.vt.x;
		y = p.vt.y;
		letter[0] = (char)('a' + test_rand() % 26);
		at = now_seconds();
		until = at + 120 * test_patience();
		send(letter);
		/* Wait at most five seconds, but longer while the answer runs: the end of the answer moves the rows. */
		while (!p.ended && now_seconds() < until && (now_seconds() < at + 5 || !at_rest()) &&
		       (p.vt.frame || p.vt.x != x + 1 || p.vt.y != y || p.vt.cell[y * W + x].cp != letter[0]))
			take(0.05);
		lag[done++] = now_seconds() - at;
		if (lag[done - 1] >= 5) {
			done--;
			column = 0;
			if (!at_rest())
				return -1;
		}
	}
	return done;
}

static void report(const char *what, double *lag, int n)
{
	qsort(lag, (size_t)(n > 0 ? n : 1), sizeof *lag, by_size);
	CHECK_MSG(n > 0, "%s: the letters do not come out", what);
	if (n <= 0)
		return;
	test_note("%d keys while it answers, %s: p50 %.1f ms, p99 %.1f ms, at most %.1f ms", n, what, lag[n / 2] * 1e3,
	          lag[n * 99 / 100] * 1e3, lag[n - 1] * 1e3);
	CHECK(lag[n / 2] < 1 * test_patience()); /* the median, so that single delays by a busy machine do not count */
}

/* Return the processor time of all threads of the program, in seconds. */
static double taken(void)
{
	char path[300], buf[100];
	double sum = 0;
	DIR *dir;

	snprintf(path, sizeof path, "/proc/%d/task", (int)p.pid);
	dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));) {
		FILE *f;
		snprintf(path, sizeof path, "/proc/%d/task/%.20s/schedstat", (int)p.pid, e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
		if (f && fgets(buf, sizeof buf, f))
			sum += strtod(buf, NULL) * 1e-9;
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return sum;
}

/* Wait until the program uses almost no processor time: if a pane covers the transcript, the screen does not show that
 * the answer is complete. */
static void until_quiet(double seconds)
{
	double until = now_seconds() + seconds, before = taken(), cpu;

	for (int quiet = 0; quiet < 4 && !p.ended && now_seconds() < until; before = cpu) {
		pass(0.05);
		cpu = taken();
		quiet = cpu - before < 0.003 ? quiet + 1 : 0;
	}
}

TEST(keys_while_it_answers)
{
	double lag[300];
	int long_run = getenv("WEIR_SOAK") != NULL, n;

	started();
	CHECK_MSG(wait_for(at_rest, 60), "it does not begin");
	n = measure(300, lag);
	report("cache hidden", lag, n);
	send("\033OQ");
	n = measure(long_run ? 300 : 100, lag);
	report("cache as a bar", lag, n);
	send("\025\033");
	CHECK_MSG(wait_for(at_rest, 20), "it does not stop");
	send("\033OQ\033OQ");
	/* Measure the processor time of the idle program, with the full cache view shown and hidden. */
	until_quiet(60);
	for (int shown = 0; shown < 2; shown++) {
		double seconds = long_run ? 10 : shown ? 1 : 3, before = taken(), took;
		pass(seconds);
		took = (taken() - before) / seconds;
		test_note("nobody does anything, cache %s: %.2f %% of a processor", shown ? "shown" : "hidden",
		          took * 100);
		CHECK(took < 0.05 * test_patience());
		send("\033OQ");
		pass(0.3);
		until_quiet(60);
	}
	ended();
}

static const char *entered;
static int is_written(void)
{
	return !p.vt.frame && strstr(row(H - 2), entered) != NULL;
}

/* 1 if the input line is empty and the hints on the same frame say that nothing runs: the program has accepted the line
 * and finished its work. */
static int taken_at_rest(void)
{
	return at_rest() && row(H - 2)[0] == '>' && strspn(row(H - 2) + 1, " ") == W - 1;
}

/* Type a line, and press Enter when it is on the screen. */
static void enter(const char *text)
{
	type(text);
	entered = strlen(text) > 20 ? text + strlen(text) - 20 : text; /* the last 20 bytes, which fit into one row */
	wait_for(is_written, 60);
	send("\r");
}

static double middle(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_size);
	return v[n / 2];
}

/* Parse the last "[24 tokens, 31.2 t/s" on the screen. Returns 1 if found. */
static int told(int *tokens, double *tps)
{
	for (int y = H - 1; y >= 0; y--) {
		const char *at = strchr(row(y), '[');
		if (at && sscanf(at, "[%d tokens, %lf t/s", tokens, tps) == 2)
			return 1;
	}
	return 0;
}

/* 1 if the program is at rest and no pane covers the answer's figures. */
static int told_at_rest(void)
{
	return taken_at_rest() && told(&(int){ 0 }, &(double){ 0 });
}

TEST(the_panel_costs_little)
{
	static const char *const name[] = { "hidden", "bar", "full" };
	static const char escape[] = "\033[27u"; /* a bare ESC read together with the next letter would mean Alt */
	int n = getenv("WEIR_SOAK") ? 300 : 40, rounds = getenv("WEIR_SOAK") ? ROUNDS_SOAK : ROUNDS, whole = 1;
	double cpu[3][ROUNDS_SOAK], tps[3][ROUNDS_SOAK];
	char text[40];

	if (test_patience() > 1)
		SKIP("what a slow build takes says nothing");
	started();
	CHECK_MSG(wait_for(at_rest, 60), "it does not begin");
	snprintf(text, sizeof text, "/set n %d", n);
	enter(text);
	CHECK(wait_for(taken_at_rest, 120));
	enter("Write a very long story about a mill, a weir and a miller, with many chapters.");
	CHECK(wait_for(taken_at_rest, 120));
	for (int i = 0; i < rounds; i++)
		for (int how = 0; how < 3; how++) {
			int tokens = 0;
			double before;

			snprintf(text, sizeof text, "/kv %s", how ? name[how] : "off");
			enter(text);
			if (how == 2) {
				/* The full view covers the input line, so close it, enter the command, and open it
				 * again. */
				until_quiet(60);
				send(escape);
			}
			whole &= wait_for(told_at_rest, 120);
			before = taken();
			enter("/regen");
			if (how == 2) {
				send("\033OQ");
				until_quiet(60);
				send(escape);
			}
			whole &= wait_for(told_at_rest, 120);
			cpu[how][i] = taken() - before;
			whole &= told(&tokens, &tps[how][i]);
			cpu[how][i] /= tokens > 0 ? tokens : 1;
		}
	CHECK_MSG(whole, "an answer is missing: %s", row(H - 4));
	for (int how = 0; how < 3 && whole; how++) {
		/* middle() sorts both arrays */
		double cost = middle(cpu[how], rounds), speed = middle(tps[how], rounds);
		test_note("cache %s: %.2f ms of processor time a token, %.1f t/s "
		          "(medians of %d answers of %d tokens; at best %.2f ms, %.1f t/s)",
		          name[how], cost * 1e3, speed, rounds, n, cpu[how][0] * 1e3, tps[how][rounds - 1]);
		/* Compare the cheapest answers, which other programs disturbed least. The bound is wide, because even
		 * they are disturbed: threads that wait for each other use processor time. */
		CHECK_MSG(cpu[how][0] < 3 * cpu[0][0] + 2e-3,
		          "cache %s: %.2f ms of processor time a token, hidden %.2f", name[how], cpu[how][0] * 1e3,
		          cpu[0][0] * 1e3);
	}
	ended();
}
