/* sessions/fetch/curl.h - private to sessions/: libcurl, loaded when the first address is read.
 *
 * It brings thirty libraries, which would double the time that weir takes to start. */
#ifndef WEIR_CURL_H
#define WEIR_CURL_H

#include "sessions/fetch/fetch.h"

#include <curl/curl.h>

/* What is used of it. */
struct curl_lib {
	CURLcode (*global_init)(long);
	CURL *(*init)(void);
	CURLcode (*setopt)(CURL *, CURLoption, ...);
	CURLcode (*perform)(CURL *);
	CURLcode (*getinfo)(CURL *, CURLINFO, ...);
	void (*cleanup)(CURL *);
	const char *(*strerror)(CURLcode);
	struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
	void (*slist_free)(struct curl_slist *);
	CURLM *(*multi_init)(void);
	CURLMcode (*multi_cleanup)(CURLM *);
	CURLMcode (*multi_add)(CURLM *, CURL *);
	CURLMcode (*multi_remove)(CURLM *, CURL *);
	CURLMcode (*multi_perform)(CURLM *, int *);
	CURLMcode (*multi_poll)(CURLM *, struct curl_waitfd *, unsigned, int, int *);
	CURLMsg *(*multi_info)(CURLM *, int *);
	char *(*version)(void);
};
/* NULL: it is not installed, or does not start; ERR_DOCUMENT. */
const struct curl_lib *curl_load(struct err *);
/* The file with the certificates of authorities: SSL_CERT_FILE.  A libcurl that was not built for one distribution (tests/package/portable.sh)
 * does not know where they are: then one of the places where distributions keep them. */
void curl_set_certificates(const struct curl_lib *, CURL *);

/* ---- address.c ---- */

struct sockaddr;
enum nearness { NEAR_PUBLIC, NEAR_NETWORK, NEAR_HERE };   /* anywhere, an address of a network's own, this machine */
enum nearness near_address(const struct sockaddr *);
enum nearness near_number(const char *ip);
/* By the host of an address: a number or "localhost"; any other name counts as public. */
enum nearness near_host(const char *url);
/* A proxy finds the machines: nothing but their names tells where they are. */
int near_by_name(void);

/* ---- http.c ---- */

/* A line of an answer's head, which is not terminated: into *r. */
void http_head_line(struct http_reply *r, const char *bytes, size_t n);
/* Bytes of "https://host:port": two addresses with the same ones are of the same server. */
size_t http_origin_bytes(const char *url);
/* Did the connection fail in a way that may be another one the next time? */
int http_is_broken(CURLcode);
/* Nothing but http and https, no redirection followed, no signals. */
void http_plain_options(const struct curl_lib *, CURL *, const char *url, char *error);

#endif
