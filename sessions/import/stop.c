/* sessions/import/stop.c - lets the user stop an import: every long loop polls import_stopped(). */
#include "sessions/import/import_private.h"

static int (*stop_asked)(void);

void doc_stop_when(int (*stopped)(void))
{
	stop_asked = stopped;
}

int import_stopped(void)
{
	return stop_asked && stop_asked();
}

int import_refuse_stopped(const char *shown, struct err *e)
{
	return err_set(e, ERR_CANCELLED, "document '%.200s' was not read: stopped", shown);
}
