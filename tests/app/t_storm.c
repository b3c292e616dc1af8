/* tests/app/t_storm.c - feeds the whole program random keys, pastes, invalid bytes, commands and sizes from 1x1 to
 * 500x200 while answers are generated; once behind a screen of cells, once on a pseudo terminal.
 *
 * Each run (storm) is a process of its own, so that the seed of a run that crashes or hangs is known. If the keys quit
 * the program, it is started again. Checked: the program never hangs for WATCHDOG seconds; it sends only control
 * sequences that the terminal supports, and the terminal's screen equals the drawn picture; after quitting, the
 * terminal is restored; at the end the program can be stopped and accepts a line.
 *
 * WEIR_SOAK=20: 100,000 keys and 10,000 sizes. WEIR_STORM=SEED: only the run with this seed. */
#include "app/tui/tui.h"
#include "app/tui/tui_private.h"
#include "ui/ui_private.h"
#include "tests/lib/pty.h" /* must be the last include: terminfo defines short words as macros */

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MODEL    "tests/vectors/models/llama-block32.gguf"
#define WATCHDOG 240.0 /* seconds; long, because the machine may be busy */

/* Suppress leak reports about readline, see tests/lib/screen_alone.h. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "fast_unwind_on_malloc=0";
}
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:_rl_callback_data_alloc\nleak:_rl_scxt_alloc\nleak:rl_initialize\n";
}
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}

static int times(int n)
{
	const char *soak = getenv("WEIR_SOAK");
	long factor = soak ? strtol(soak, NULL, 10) : 1;

	return n * (int)(factor < 1 ? 1 : MIN(1000, factor));
}

/* Shared with the parent process, which watches the run. */
struct seen {
	int steps, busy, keys, sizes, lives, pictures, complaints;
	double longest;     /* longest step of the event loop, in seconds */
	uint64_t sequences; /* control sequences that the program has written */
	char doing[200];
};

struct storm {
	struct seen *seen;
	uint64_t seed, rng;
	int on_pty, keys, sizes; /* keys, sizes: how many to send */
	int failed;              /* number of failed checks so far */
	char home[64], model[PATH_MAX];
	struct options o;
	struct chat c;
	struct tui *t;
	struct show show; /* the terminal: pty, its screen, and the control sequences that it supports */
	struct str out;   /* bytes to send to the program */
};

static void complain(struct storm *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void complain(struct storm *s, const char *fmt, ...)
{
	va_list ap;

	if (s->seen->complaints++ > 5)
		return;
	fprintf(stderr, "    seed %llu, step %d, %dx%d: ", (unsigned long long)s->seed, s->seen->steps,
	        s->t ? s->t->ui->w : 0, s->t ? s->t->ui->h : 0);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static unsigned roll(struct storm *s, unsigned n)
{
	uint64_t z = (s->rng += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (unsigned)((z ^ (z >> 31)) >> 16) % n;
}

#define PICK(s, list) (list)[roll(s, sizeof(list) / sizeof *(list))]

/* ---- what is typed ---- */

/* clang-format off */
static const char *const words[] = {
	"hello", "what", "is", "a", "weir", "tell", "me", "more", "**bold**", "```c\nint x;\n```", "# head", "| a | b |",
	"1.", "\xe6\xbc\xa2\xe5\xad\x97",
	"e\xcc\x81\xcc\x82", "\xf0\x9f\x91\x8d\xf0\x9f\x8f\xbd", "\xd7\xa9\xd7\x9c", "@doc.md", "\\", "\"\"\"", "'", "/",
};
/* clang-format on */
static const char *const special[] = {
	"\033[A",   "\033[B",   "\033[C",   "\033[D", "\033[H",   "\033[F",       "\033[5~",
	"\033[6~",  "\033[2~",  "\033[3~",  "\033OA", "\033OH",   "\033[1;5C",    "\033[1;2D",
	"\033OP",   "\033OQ",   "\033OR",   "\033OS", "\033[15~", "\033[17~",     "\033[18~",
	"\033[19~", "\033[20~", "\033[24~", "\033[Z", "\t",       "\r",           "\n",
	"\177",     "\033\r",   "\033\033", "\033[I", "\033[O",   "\033[27;5;9~", "\033[97;5u",
};
/* Letters that are keys in panes and in the transcript. */
static const char letters[] = "jkudbfgGnNq?[]ycrezmi'/o40%p7cl+-=1234 yn";
static const char controls[] =
	"\001\002\005\006\007\010\013\014\016\020\022\023\024\025\026\027\030\031\031\037\003\033\032";
/* Incomplete, unknown or invalid sequences. Other keys follow them at once. */
/* clang-format off */
static const char *const broken[] = {
	"\033", "\033[", "\033[1;", "\033[200", "\033O", "\033]0;title", "\033]52;c;AAAA\a", "\033P$q", "\033_x",
	"\033[<0;", "\033[<64;10;10", "\033[M", "\033[?1;2c",
	"\033[12;40R", "\033[999999999999999999999~", "\033[38:2:1:2:3m", "\302", "\342\200", "\360\237\221", "\200",
	"\377\376", "\300\233", "\355\240\200",
	"\233A", "\302\233A", "\0", "\033[201~", "\033[200~",
};
/* clang-format on */
/* clang-format off */
static const char *const commands[] = {
	"/undo", "/undo 3", "/regen", "/regen", "/fork", "/fork again", "/new", "/new", "/stats", "/sessions",
	"/switch storm", "/switch storm 2", "/switch nobody",
	"/rename \033[31mred\xe2\x80\xae", "/rename storm 2", "/kv bar", "/kv full", "/kv off", "/kv layer 1", "/kv size",
	"/kv drop", "/kv dump cache.json",
	"/set kv full", "/set kv auto:size=64", "/set kv sift:k=16", "/set kv refresh:k=32",
	"/set kv sink:size=64,stride=16", "/set kv cascade:size=32,stride=32",
	"/set kv cascade:size=64,n=2,stride=16", "/set kv cascade", "/set kv nonsense", "/set n 400", "/set n 2000",
	"/set temp 1.5", "/set seed 7", "/set", "/read small.txt", "/read hostile.bin", "/read nowhere", "/docs",
	"/docs 40%", "/docs word", "/copy", "/copy code", "/copy all",
	"/grep e", "/find hello", "/export out.md", "/export out.json", "/theme light", "/theme mono", "/theme dark",
	"/raw", "/mouse", "/help", "/system \xff\033[2J",
	"/edit something else", "/save", "/nonsense", "//slash", "/quit",
};
/* clang-format on */

static void put(struct storm *s, const char *bytes)
{
	/* An empty string stands for one NUL byte. */
	str_add(&s->out, bytes, *bytes ? strlen(bytes) : 1);
	s->seen->keys++;
}

static void put_typed(struct storm *s, const char *text)
{
	for (size_t n = strlen(text), i = 0; i < n;) {
		int32_t cp;
		int len = utf8_decode(text + i, n - i, &cp);
		str_add(&s->out, text + i, (size_t)len);
		s->seen->keys++;
		i += (size_t)len;
	}
}

static void put_noise(struct storm *s, unsigned n)
{
	while (n--) {
		char c = (char)roll(s, 256);
		str_add(&s->out, &c, 1);
		s->seen->keys++;
	}
}

static void put_paste(struct storm *s)
{
	put(s, "\033[200~");
	for (unsigned i = roll(s, 12); i; i--) {
		const char *w = roll(s, 3) ? PICK(s, words) : PICK(s, broken);
		str_adds(&s->out, w);
		str_adds(&s->out, roll(s, 2) ? " " : roll(s, 2) ? "\r" : "\r\n");
	}
	if (roll(s, 8))
		put(s, "\033[201~");
}

static void put_mouse(struct storm *s)
{
	static const int pressed[] = { 0, 1, 2, 3, 32, 35, 64, 65, 64, 65, 128 };
	char text[60];

	if (roll(s, 4))
		snprintf(text, sizeof text, "\033[<%d;%u;%u%c", PICK(s, pressed), roll(s, 600), roll(s, 300),
		         roll(s, 2) ? 'M' : 'm');
	else
		snprintf(text, sizeof text, "\033[M%c%c%c", 32 + (char)roll(s, 4), 33 + (char)roll(s, 90),
		         33 + (char)roll(s, 90));
	put(s, text);
}

static void some_keys(struct storm *s)
{
	char one[2] = { 0 };

	switch (roll(s, 16)) {
	case 0:
	case 1:
		for (unsigned i = 1 + roll(s, 3); i; i--) {
			put_typed(s, PICK(s, words));
			put(s, " ");
		}
		break;
	case 2: put(s, "\r"); break;
	case 3:
	case 4:
	case 5:
		for (unsigned i = 1 + roll(s, 4); i; i--)
			put(s, PICK(s, special));
		break;
	case 6:
	case 7:
		for (unsigned i = 1 + roll(s, 4); i; i--) {
			one[0] = letters[roll(s, sizeof letters - 1)];
			put(s, one);
		}
		break;
	case 8:
		one[0] = controls[roll(s, sizeof controls - 1)];
		put(s, one);
		break;
	case 9:
		put(s, "\033");
		one[0] = (char)(33 + roll(s, 94));
		put(s, one);
		break;
	case 10:
	case 11:
		if (roll(s, 3))
			put(s, "\025");
		put_typed(s, PICK(s, commands));
		put(s, roll(s, 8) ? "\r" : "\t");
		break;
	case 12: put_paste(s); break;
	case 13: put_mouse(s); break;
	case 14: put(s, PICK(s, broken)); break;
	default: put_noise(s, roll(s, 20) ? 1 + roll(s, 4) : 200);
	}
	if (!roll(s, 300))
		put(s, "\004");
}

/* ---- the program ---- */

static void step(struct storm *s, double seconds)
{
	double before = now_seconds(), took;

	s->seen->steps++;
	s->seen->busy += !tui_idle(s->t);
	tui_step(s->t, seconds);
	took = now_seconds() - before - seconds;
	if (took > s->seen->longest)
		s->seen->longest = took;
}

/* Wait until the kernel has delivered the bytes written to the master. If keys arrived while the terminal is not in raw
 * mode, they would be echoed, and Ctrl-C, Ctrl-Z and Ctrl-\ would flush pending output, of which the program would not
 * know. So all keys must have arrived before the program can suspend, start an editor or quit. */
static void wait_for_keys(struct storm *s, int there)
{
	double until = now_seconds() + 20;
	int waiting = 0;

	while (!ioctl(s->show.pty.fd, FIONREAD, &waiting) && waiting < there && now_seconds() < until)
		nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
}

/* Send the bytes to the program as a terminal would. */
static void send(struct storm *s)
{
	int waiting = 0;

	snprintf(s->seen->doing, sizeof s->seen->doing, "sending %zu bytes: ", s->out.n);
	for (size_t i = 0; i < s->out.n && i < 30; i++) {
		size_t at = strlen(s->seen->doing);
		snprintf(s->seen->doing + at, sizeof s->seen->doing - at,
		         s->out.p[i] > ' ' && s->out.p[i] < 127 ? "%c" : "\\x%02x", (unsigned char)s->out.p[i]);
	}
	if (!s->on_pty) {
		if (s->out.n)
			tui_feed(s->t, s->out.p, s->out.n);
	} else {
		ioctl(s->show.pty.fd, FIONREAD, &waiting);
		if (s->out.n && write(s->show.pty.master, s->out.p, s->out.n) != (ssize_t)s->out.n)
			complain(s, "the terminal takes no keys");
		else
			wait_for_keys(s, waiting + (int)s->out.n);
		/* Let the program read until the terminal's input buffer is empty, so that it never overflows. */
		for (int i = 0; i < 1000 && !s->t->left && !ioctl(s->show.pty.fd, FIONREAD, &waiting) && waiting; i++)
			step(s, 0);
	}
	str_clear(&s->out);
}

static void resize(struct storm *s, int w, int h)
{
	if (!s->on_pty) {
		tui_resize(s->t, w, h);
		return;
	}
	pty_to_vt(&s->show.pty, &s->show.vt);
	set_size(&s->show.pty, w, h);
	vt_size(&s->show.vt, w, h);
	raise(SIGWINCH);
}

static void new_size(struct storm *s)
{
	static const int small[] = {
		1, 2, 3, 4, 5, 6, 7, 10, 15, 16, 20, 24, 39, 40, 59, 60, 79, 80, 109, 110, 111, 120
	};
	int w = roll(s, 2) ? PICK(s, small) : 1 + (int)roll(s, 500),
	    h = roll(s, 2) ? PICK(s, small) : 1 + (int)roll(s, 200);

	s->seen->sizes++;
	resize(s, w, h);
}

/* Check the drawn picture, and that the terminal's screen equals it. */
static void check_picture(struct storm *s)
{
	struct grid *g = &s->t->ui->grid;
	struct str text = { 0 };

	s->seen->pictures++;
	if (s->on_pty) {
		s->t->drawn = 0;
		step(s, 0);
		if (s->t->left)
			return;
		s->show.g = *g;
		s->show.d = s->t->display;
		check_screen(&s->show, "mono", -1);
		s->show.g = (struct grid){ 0 };
		if (s->show.vt.bad[0] || test_failures() > s->failed)
			complain(s, "after %s: %s", s->seen->doing, s->show.vt.bad);
		s->failed = test_failures();
		return;
	}
	tui_dump(s->t, 0, &text);
	for (size_t i = 0; i < text.n;) {
		int32_t cp;
		int len = utf8_decode(text.p + i, text.n - i, &cp);
		if (cp != '\n' && char_width(cp) < 0)
			complain(s, "U+%04X in the picture", (unsigned)cp);
		i += (size_t)len;
	}
	for (int i = 0; i < g->w * g->h; i++)
		if (g->cell[i].width > 2 || (g->cell[i].width == 2) != ((i + 1) % g->w && !g->cell[i + 1].width) ||
		    (!g->cell[i].width && i % g->w == 0)) {
			complain(s, "cell %d,%d has the width %d", i % g->w, i / g->w, g->cell[i].width);
			break;
		}
	str_free(&text);
}

static void begin(struct storm *s)
{
	static const char *const names[] = { "storm", "storm 2", "third" };
	char *args[] = { (char *)"weir",
		         (char *)"-m",
		         s->model,
		         (char *)"-s",
		         (char *)PICK(s, names),
		         (char *)"-n",
		         (char *)"1500",
		         (char *)"--threads",
		         (char *)"1",
		         (char *)"--kv",
		         (char *)(roll(s, 2) ? "cascade:size=48,stride=32" : "sink:size=64,stride=16"),
		         (char *)"-q",
		         NULL };
	struct str note = { 0 };
	struct err e = { 0 };

	s->seen->lives++;
	snprintf(s->seen->doing, sizeof s->seen->doing, "beginning");
	s->o = (struct options){ .n_owned = 0 };
	s->c = (struct chat){ .quit = 0 };
	if (options_parse(&s->o, (int)LEN(args) - 1, args, &e) < 0 || chat_open(&s->c, &s->o, &note, &e) < 0 ||
	    tui_open(&s->t, &s->c, s->on_pty ? s->show.pty.fd : -1, 80, 24, note.p, &e) < 0) {
		complain(s, "it does not begin: %s", e.msg);
		exit(1);
	}
	signals_prompt(1);
	if (s->on_pty)
		tui_measure(s->t);
	str_free(&note);
}

static void end(struct storm *s)
{
	snprintf(s->seen->doing, sizeof s->seen->doing, "leaving");
	tui_close(s->t);
	s->t = NULL;
	signals_prompt(0);
	chat_close(&s->c, &s->o);
	options_free(&s->o);
	if (s->on_pty) {
		const struct vt *v = &s->show.vt;
		struct termios now;

		pty_to_vt(&s->show.pty, &s->show.vt);
		if (v->bad[0])
			complain(s, "%s", v->bad);
		if (v->alternate || v->paste || v->mouse || v->frame || v->hidden || v->insert || v->no_margin ||
		    v->held.n || v->pen.attrs || v->pen.fg != -1 || v->pen.bg != -1)
			complain(s, "modes are left on: alternate %d, paste %d, mouse %d, frame %d, hidden cursor %d",
			         v->alternate, v->paste, v->mouse, v->frame, v->hidden);
		tcgetattr(s->show.pty.fd, &now);
		if (!same_modes(&now, &s->show.pty.before))
			complain(s, "the terminal's settings are not what they were");
	}
}

/* If the program has quit, start it again. Returns 1 if it has. */
static int again(struct storm *s)
{
	if (!s->t->left)
		return 0;
	end(s);
	begin(s);
	return 1;
}

/* Check at the end that the program can be stopped and still accepts a line. */
static void come_to_rest(struct storm *s)
{
	double until = now_seconds() + WATCHDOG / 2;
	int shows = 0;

	while (!shows && now_seconds() < until) {
		struct str text = { 0 };

		snprintf(s->seen->doing, sizeof s->seen->doing, "coming to rest");
		/* End an incomplete sequence, close panes and searches, and empty the input line and the queue. */
		str_adds(&s->out, "\033[201~");
		send(s);
		for (int i = 0; i < 3; i++) {
			str_adds(&s->out, "\033");
			send(s);
			for (int k = 0; k < 10; k++)
				step(s, 0.006);
		}
		while (!again(s) && (!tui_idle(s->t) || s->t->ui->n_queue) && now_seconds() < until) {
			str_adds(&s->out, "\033");
			send(s);
			step(s, 0.05);
		}
		str_adds(&s->out, "\001\013\025");
		send(s);
		if (again(s))
			continue;
		resize(s, 80, 24);
		for (const char *p = "still here"; *p; p++) {
			str_add(&s->out, p, 1);
			send(s);
			step(s, 0.02);
		}
		again(s);
		tui_dump(s->t, 0, &text);
		s->t->ui->dirty = 1; /* tui_dump() has drawn the screen without showing it */
		shows = strstr(text.p, "still here") != NULL;
		if (!shows && now_seconds() >= until)
			fprintf(stderr, "%s", text.p);
		str_free(&text);
	}
	if (!shows)
		complain(s, "it does not come to rest and take a line");
	check_picture(s);
	/* The terminal loses its text if the size changes and changes back before the program notices. */
	resize(s, 100, 30);
	resize(s, 80, 24);
	check_picture(s);
}

static void write_file(const char *name, const char *bytes, size_t n)
{
	FILE *f = fopen(name, "w");

	if (f) {
		fwrite(bytes, 1, n, f);
		fclose(f);
	}
}

static void prepare(struct storm *s)
{
	static const char small[] = "# A weir\n\nWater falls over a low wall; the word is old.\n\n## Second\n\n"
				    "More words about it.\f Page two.\n";
	static const char editor[] = "#!/bin/sh\nprintf '\\033]0;x\\007 edited\\n' >>\"$1\"\n";
	char hostile[600];

	snprintf(s->home, sizeof s->home, "/tmp/weir-storm-XXXXXX");
	if (!realpath(test_file(MODEL), s->model) || !mkdtemp(s->home) || chdir(s->home))
		_exit(9);
	for (size_t i = 0; i < sizeof hostile; i++)
		hostile[i] = (char)(1 + roll(s, 255));
	write_file("small.txt", small, sizeof small - 1);
	write_file("doc.md", small, sizeof small - 1);
	write_file("hostile.bin", hostile, sizeof hostile);
	write_file("editor", editor, sizeof editor - 1);
	chmod("editor", 0700);
	setenv("VISUAL", "./editor", 1);
	setenv("XDG_CONFIG_HOME", s->home, 1);
	setenv("XDG_STATE_HOME", s->home, 1);
	setenv("XDG_DATA_HOME", s->home, 1);
	setenv("XDG_RUNTIME_DIR", s->home, 1);
	setenv("INPUTRC", "/dev/null", 1);
	unsetenv("DISPLAY");
	unsetenv("WAYLAND_DISPLAY");
	unsetenv("WEIR_MODEL");
	unsetenv("WEIR_KV");
	setlocale(LC_ALL, "C.UTF-8");
	if (s->on_pty) {
		unsetenv("COLORFGBG");
		unsetenv("TMUX");
		setenv("TERM", "xterm-256color", 1);
		pty_open(&s->show.pty, 80, 24);
		vt_size(&s->show.vt, 80, 24);
		s->show.utf8 = s->show.hides_cursor = s->show.alternates = 1;
		s->show.awkward_corner = !allow_terminfo(&s->show.vt, "xterm-256color");
		s->show.vt.allow_strings = 1; /* /copy */
	}
	signals_init();
	signals_note(1);
}

static void blow(struct storm *s)
{
	int first_keys = s->keys, ints = 0;

	begin(s);
	while (s->seen->keys < s->keys || s->seen->sizes < s->sizes) {
		double progress = s->keys ? (double)s->seen->keys / first_keys : 1;

		if (s->seen->keys < s->keys)
			some_keys(s);
		/* Keep the program answering most of the time. */
		if (tui_idle(s->t) && !s->t->ui->n_queue && !roll(s, 3)) {
			if (s->t->ui->focus != ON_LINE && roll(s, 2)) {
				put(s, "\033");
				send(s);
				step(s, 0.03);
				again(s);
			}
			put(s, "\025");
			put_typed(s, PICK(s, words));
			put(s, "\r");
		}
		send(s);
		while (s->seen->sizes < s->sizes &&
		       (s->seen->sizes < progress * s->sizes || s->seen->keys >= s->keys)) {
			if (!s->t->left)
				new_size(s);
			if (roll(s, 2))
				s->t->drawn = 0;
			step(s, 0);
			again(s);
		}
		/* Send at most two SIGINT per answer: the third ends the program by design. */
		if (tui_idle(s->t))
			ints = 0;
		if (ints < 2 && !roll(s, 100)) {
			raise(SIGINT);
			ints++;
		}
		if (!roll(s, 60))
			raise(SIGTSTP);
		step(s, roll(s, 4) ? 0 : roll(s, 8) ? 0.001 : 0.03);
		if (!again(s) && !roll(s, 12))
			check_picture(s);
		again(s);
	}
	come_to_rest(s);
	end(s);
	str_free(&s->out);
	if (s->on_pty) {
		s->seen->sequences = s->show.vt.sequences;
		pty_close(&s->show.pty);
		vt_free(&s->show.vt);
	}
}

/* ---- the one that watches ---- */

static const char *how_it_ended(int status)
{
	static char text[60];

	if (WIFSIGNALED(status))
		snprintf(text, sizeof text, "died of signal %d", WTERMSIG(status));
	else
		snprintf(text, sizeof text, "ended with status %d", WEXITSTATUS(status));
	return text;
}

static void storm(uint64_t seed, int on_pty, int keys, int sizes, struct seen *sum)
{
	int failed = test_failures();
	struct seen *seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct storm s = { .seen = seen,
		           .seed = seed,
		           .rng = seed,
		           .on_pty = on_pty,
		           .keys = keys,
		           .sizes = sizes,
		           .failed = failed };
	double moved = now_seconds();
	int status = 0, steps = -1, stuck = 0;
	char clean[100];
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		prepare(&s);
		blow(&s);
		if (chdir("/") == 0) {
			snprintf(clean, sizeof clean, "rm -rf '%.60s'", s.home);
			if (system(clean)) { /* on failure only a directory is left behind */
			}
		}
		exit(seen->complaints || test_failures() > failed); /* exit(), not _exit(), so that leaks are checked */
	}
	while (waitpid(child, &status, WNOHANG | WUNTRACED) == 0 || WIFSTOPPED(status)) {
		if (WIFSTOPPED(status))
			kill(child, SIGCONT); /* continue the process, as if somebody typed fg */
		status = 0;
		if (seen->steps != steps) {
			steps = seen->steps;
			moved = now_seconds();
		} else if (!stuck && now_seconds() - moved > WATCHDOG) {
			stuck = 1;
			test_fail(__FILE__, __LINE__, "seed %llu: stuck for %.0f s at step %d, %s",
			          (unsigned long long)seed, WATCHDOG, steps, seen->doing);
			kill(child, SIGABRT);
			moved = now_seconds();
		} else if (stuck && now_seconds() - moved > 20) {
			kill(child, SIGKILL);
		}
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	          "seed %llu %s: %s after %d steps, %d keys, %d sizes, at last %s", (unsigned long long)seed,
	          on_pty ? "on a terminal" : "without a terminal", how_it_ended(status), seen->steps, seen->keys,
	          seen->sizes, seen->doing);
	sum->steps += seen->steps;
	sum->busy += seen->busy;
	sum->keys += seen->keys;
	sum->sizes += seen->sizes;
	sum->lives += seen->lives;
	sum->pictures += seen->pictures;
	sum->sequences += seen->sequences;
	if (seen->longest > sum->longest)
		sum->longest = seen->longest;
	munmap(seen, sizeof *seen);
}

static void storms(int on_pty)
{
	enum { KEYS = 2500, SIZES = 250, EACH = 2500 }; /* EACH: most keys of one process */
	int keys = times(KEYS), sizes = times(SIZES), n = (keys + EACH - 1) / EACH;
	const char *one = getenv("WEIR_STORM");
	struct seen sum = { 0 };

	for (int i = 0; i < n; i++) {
		uint64_t seed = one ? strtoull(one, NULL, 10) : test_rand() % 1000000000u;
		storm(seed, on_pty, keys * (i + 1) / n - keys * i / n, sizes * (i + 1) / n - sizes * i / n, &sum);
		if (one)
			break;
	}
	test_note(
		"%d keys, %d sizes, %d times begun, %.0f %% of %d steps while it worked, %d pictures compared, the longest step "
		"%.0f ms%s",
		sum.keys, sum.sizes, sum.lives, 100.0 * sum.busy / (sum.steps ? sum.steps : 1), sum.steps, sum.pictures,
		sum.longest * 1e3, on_pty ? "" : ", no terminal");
	if (on_pty)
		test_note("%llu control sequences came out", (unsigned long long)sum.sequences);
	CHECK(sum.busy * 5 > sum.steps); /* otherwise too few keys came during answers */
}

TEST(behind_cells)
{
	storms(0);
}

TEST(on_a_terminal)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (master < 0)
		SKIP("no pseudo terminals here: %s", strerror(errno));
	close(master);
	storms(1);
}
