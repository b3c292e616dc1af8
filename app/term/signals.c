/* app/term/signals.c - what signals do.
 *
 *     SIGINT stops the answer; at the prompt of a chat it clears the line; without a chat the program exits with 130.
 *     SIGTERM and SIGHUP stop the answer, save, and exit with 128 + n; without a chat the program exits at once.
 *     SIGPIPE and SIGXFSZ are ignored, so that the failed write() reports the error.
 *     SIGBUS in a mapped model file or KV cache (truncated, or the disk failed) becomes an error of the engine
 *         (engine_fault()).
 *     SIGBUS elsewhere, SIGSEGV, SIGQUIT, SIGABRT, SIGFPE and SIGILL restore the terminal and end the program.
 *
 * A handler also writes into a pipe that the prompt polls, because a signal just before poll() would not interrupt
 * it. */
#include "app/term/term.h"
#include "engine/engine_machine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <termios.h>
#include <unistd.h>

#include "kernels/os.h"

static struct timeline *_Atomic watched;
static atomic_int noted, working, got_int, got_resize, got_stop, got_quit, stopped, n_int;
static int wake_pipe[2] = { -1, -1 };
static struct termios saved;
static int saved_fd = -1;
static const char *saved_reset;

static void restore_terminal(void)
{
	if (saved_fd < 0)
		return;
	/* if this fails, the terminal is gone, and there is nothing to restore */
	if (write(saved_fd, saved_reset, strlen(saved_reset)) < 0) {
	}
	tcsetattr(saved_fd, TCSANOW, &saved);
}

static void poll_wake(void)
{
	int keep = errno;

	if (write(wake_pipe[1], "!", 1) < 0) { /* a full pipe needs no further byte: it wakes poll() anyway */
	}
	errno = keep;
}

static void on_stop_signal(int sig)
{
	struct timeline *tl = atomic_load(&watched);

	if (sig == SIGINT)
		atomic_store(&got_int, 1);
	else
		atomic_store(&got_quit, sig);
	if (tl || atomic_load(&working)) {
		atomic_store(&stopped, 1);
		if (tl)
			timeline_cancel(tl);
		/* two SIGINT have not stopped the answer, so the third SIGINT ends the process */
		if (sig == SIGINT && atomic_fetch_add(&n_int, 1) >= 2) {
			restore_terminal();
			_exit(130);
		}
	} else if (!atomic_load(&noted)) {
		restore_terminal();
		_exit(128 + sig);
	}
	poll_wake();
}

static void on_resize(int sig)
{
	(void)sig;
	atomic_store(&got_resize, 1);
	poll_wake();
}

static void on_tstp(int sig)
{
	(void)sig;
	atomic_store(&got_stop, 1);
	poll_wake();
}

static void on_crash(int sig)
{
	restore_terminal();
	signal(sig, SIG_DFL);
	raise(sig);
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (!engine_fault(info->si_addr))
		on_crash(sig);
}

static void signal_handle(int sig, void (*fn)(int), int flags)
{
	struct sigaction sa = { .sa_flags = flags };

	sa.sa_handler = fn;
	sigemptyset(&sa.sa_mask);
	sigaction(sig, &sa, NULL);
}

void signals_init(void)
{
	struct sigaction hup, bus = { .sa_flags = SA_ONSTACK | SA_SIGINFO };

	if (os_pipe(wake_pipe, O_NONBLOCK) < 0)
		wake_pipe[0] = wake_pipe[1] = -1; /* without the pipe, a prompt notices a signal only at the next key */
	/* Without SA_RESTART, a signal also interrupts a write to a full pipe. SIGINT is handled even if it was ignored
	 * when weir started (as in a background job of a shell), so that the answer so far is saved. */
	signal_handle(SIGINT, on_stop_signal, 0);
	signal_handle(SIGTERM, on_stop_signal, 0);
	if (sigaction(SIGHUP, NULL, &hup) || hup.sa_handler != SIG_IGN) /* under nohup, keep ignoring SIGHUP */
		signal_handle(SIGHUP, on_stop_signal, 0);
	signal_handle(SIGPIPE, SIG_IGN, 0);
	signal_handle(SIGXFSZ, SIG_IGN, 0);
	bus.sa_sigaction = on_bus;
	sigemptyset(&bus.sa_mask);
	sigaction(SIGBUS, &bus, NULL);
#ifndef __SANITIZE_ADDRESS__
	{
		/* The handler needs its own stack, because the stack may have overflowed. The system also saves the
		 * registers there; those of AMX alone take 8 KB. */
		static char stack[32768];
		stack_t ss = { .ss_sp = stack, .ss_size = sizeof stack };
		sigaltstack(&ss, NULL);
		signal_handle(SIGQUIT, on_crash, SA_RESETHAND);
		signal_handle(SIGSEGV, on_crash, SA_ONSTACK | SA_RESETHAND);
		signal_handle(SIGABRT, on_crash, SA_ONSTACK | SA_RESETHAND);
		signal_handle(SIGFPE, on_crash, SA_ONSTACK | SA_RESETHAND);
		signal_handle(SIGILL, on_crash, SA_ONSTACK | SA_RESETHAND);
	}
#endif
}

/* A core limit of 0 is not enough: the kernel still pipes the core to a handler such as systemd-coredump. So the
 * dumpable flag is cleared, too, except under a sanitizer, whose leak checker needs it. */
void signals_leave_no_core(void)
{
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
#ifndef __SANITIZE_ADDRESS__
	os_undumpable();
#endif
}

void signals_stop(void)
{
	struct timeline *tl = atomic_load(&watched);

	if (!tl && !atomic_load(&working))
		return;
	atomic_store(&stopped, 1);
	if (tl)
		timeline_cancel(tl);
}

void signals_work(int on)
{
	if (on) {
		atomic_store(&stopped, 0);
		atomic_store(&n_int, 0);
	}
	atomic_store(&working, on);
}

void signals_watch(struct timeline *tl)
{
	int part = atomic_load(&working);

	if (tl && !part) {
		atomic_store(&stopped, 0);
		atomic_store(&n_int, 0);
	}
	atomic_store(&watched, tl);
	if (tl && part && atomic_load(&stopped))
		timeline_cancel(tl);
}

void signals_note(int on)
{
	atomic_store(&noted, on);
}

void signals_prompt(int waiting)
{
	if (waiting) {
		signal_handle(SIGWINCH, on_resize, SA_RESTART);
		signal_handle(SIGTSTP, on_tstp, 0);
	} else {
		signal_handle(SIGWINCH, SIG_DFL, 0);
		signal_handle(SIGTSTP, SIG_DFL, 0);
	}
}

void signals_save_terminal(int fd, const char *reset)
{
	saved_reset = reset;
	if (!tcgetattr(fd, &saved))
		saved_fd = fd;
}

int signals_fd(void)
{
	return wake_pipe[0];
}

void signals_drain(void)
{
	char buf[64];

	while (read(wake_pipe[0], buf, sizeof buf) > 0) {
	}
}

int signals_take_int(void)
{
	return atomic_exchange(&got_int, 0);
}

int signals_take_resize(void)
{
	return atomic_exchange(&got_resize, 0);
}

int signals_take_stop(void)
{
	return atomic_exchange(&got_stop, 0);
}

int signals_quit(void)
{
	return atomic_load(&got_quit);
}

int signals_working(void)
{
	return atomic_load(&working);
}

int signals_stopped(void)
{
	return atomic_load(&stopped);
}
