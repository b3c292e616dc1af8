/* sessions/import/stop.c - stopping an import: the one question that every loop asks which may take long. */
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
