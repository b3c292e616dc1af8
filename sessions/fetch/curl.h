/* sessions/fetch/curl.h - the functions of libcurl that weir uses, and helpers for requests; private to sessions/.
 *
 * libcurl is loaded with dlopen() when the first address is read. If weir were linked to libcurl, every start would
 * load libcurl and its libraries, and would be slower. */
#ifndef WEIR_CURL_H
#define WEIR_CURL_H

#include "sessions/fetch/fetch.h"

#include <curl/curl.h>

/* The functions of libcurl that are used. */
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
/* Load libcurl once. Returns NULL with ERR_DOCUMENT if libcurl is not installed or cannot be initialised. */
const struct curl_lib *curl_load(struct err *);
/* Set the file of CA certificates: the path in SSL_CERT_FILE if it is set, else the path built into libcurl, else the
 * first file that exists in a list of common paths. */
void curl_set_certificates(const struct curl_lib *, CURL *);

/* ---- address.c ---- */

struct sockaddr;
/* in this order: the internet, a private network, this machine */
enum nearness { NEAR_PUBLIC, NEAR_NETWORK, NEAR_HERE };
/* near_address() classifies a socket address, near_number() an IP address given as text. */
enum nearness near_address(const struct sockaddr *);
enum nearness near_number(const char *ip);
/* Classify the host of a URL without looking up its name: an IP address by its range, "localhost" as this machine,
 * any other name as public. */
enum nearness near_host(const char *url);
/* 1 if the environment names a proxy. The proxy then looks up host names, so weir does not see their IP addresses
 * and can check only the names. */
int near_by_name(void);

/* ---- http.c ---- */

/* Parse one header line (n bytes, not NUL-terminated) into *r. */
void http_head_line(struct http_reply *r, const char *bytes, size_t n);
/* Return the length of the origin, such as "https://host:port", at the beginning of url; 0 if url has none. URLs
 * with the same origin lead to the same server. */
size_t http_origin_bytes(const char *url);
/* 1 if the error is a failed connection, so that a retry may succeed. */
int http_is_broken(CURLcode);
/* Set the options that all requests share: http and https only, no redirections, no signals. `error` is a buffer of
 * CURL_ERROR_SIZE bytes for libcurl's message. */
void http_plain_options(const struct curl_lib *, CURL *, const char *url, char *error);

#endif
