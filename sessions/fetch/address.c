/* sessions/fetch/address.c - parses web addresses and classifies hosts: this machine, its private network, or the
 * internet (curl.h).
 *
 * http.c uses the class to refuse a redirection from a public server to this machine or its private network: a
 * server must not make weir read what only this machine can reach, such as a router's settings. */
#include "sessions/fetch/fetch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/fetch/curl.h"

int doc_is_address(const char *path)
{
	return !strncasecmp(path, "http://", 7) || !strncasecmp(path, "https://", 8);
}

static enum nearness near_v4(uint32_t a)
{
	if (a >> 24 == 127 || a >> 24 == 0)
		return NEAR_HERE;
	if (a >> 24 == 10 || a >> 20 == (172 << 4 | 1) || a >> 16 == (192 << 8 | 168) || a >> 16 == (169 << 8 | 254) ||
	    a >> 22 == (100 << 2 | 1))
		return NEAR_NETWORK;
	return NEAR_PUBLIC;
}

/* Classify an IPv6 address. If the address contains an IPv4 address (mapped, compatible or NAT64), classify the IPv4
 * address. */
static enum nearness near_v6(const unsigned char a[16])
{
	static const unsigned char here[16] = { [15] = 1 }, mapped[12] = { [10] = 0xff, [11] = 0xff },
				   nat64[12] = { 0, 0x64, 0xff, 0x9b };
	uint32_t v4 = (uint32_t)a[12] << 24 | (uint32_t)a[13] << 16 | (uint32_t)a[14] << 8 | a[15];

	if (!memcmp(a, here, 16))
		return NEAR_HERE;
	if (!memcmp(a, here, 12) || !memcmp(a, mapped, 12) || !memcmp(a, nat64, 12))
		return near_v4(v4);
	return (a[0] & 0xfe) == 0xfc || (a[0] == 0xfe && a[1] & 0x80) ? NEAR_NETWORK : NEAR_PUBLIC;
}

enum nearness near_address(const struct sockaddr *sa)
{
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;

	if (sa->sa_family == AF_INET) {
		memcpy(&v4, sa, sizeof v4);
		return near_v4(ntohl(v4.sin_addr.s_addr));
	}
	if (sa->sa_family != AF_INET6)
		return NEAR_HERE; /* an address of another family is a Unix socket */
	memcpy(&v6, sa, sizeof v6);
	return near_v6(v6.sin6_addr.s6_addr);
}

enum nearness near_number(const char *text)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (inet_pton(AF_INET6, text, &v6) == 1)
		return near_v6(v6.s6_addr);
	/* inet_aton() also reads forms such as "127.1" and "0x7f000001" */
	return inet_aton(text, &v4) ? near_v4(ntohl(v4.s_addr)) : NEAR_PUBLIC;
}

/* Copy the host of a URL. An IPv6 address is copied without its brackets. Returns 0, or -1 if the URL has no host or
 * the host is longer than 255 bytes. */
static int host_of(const char *url, char host[256])
{
	size_t n = http_origin_bytes(url);
	const char *p = strstr(url, "://"), *end;

	if (!n)
		return -1;
	p += 3;
	n -= (size_t)(p - url);
	end = *p == '[' ? memchr(p, ']', n) : memchr(p, ':', n);
	if (end)
		n = (size_t)(end - p);
	if (*p == '[')
		p++, n--;
	if (n > 255)
		return -1;
	memcpy(host, p, n);
	host[n] = 0;
	return 0;
}

enum nearness near_host(const char *url)
{
	static const char local[] = "localhost";
	size_t n, k = sizeof local - 1;
	char host[256];

	if (host_of(url, host) < 0)
		return NEAR_PUBLIC;
	n = strlen(host);
	if (n && host[n - 1] == '.')
		host[--n] = 0;
	if (n >= k && !strcasecmp(host + n - k, local) && (n == k || host[n - k - 1] == '.'))
		return NEAR_HERE;
	return near_number(host);
}

int near_by_name(void)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY" };

	for (size_t i = 0; i < LEN(names); i++) {
		const char *set = getenv(names[i]);

		if (set && *set)
			return 1;
	}
	return 0;
}

/* compare the whole host and not only its beginning: "127.0.0.1.example" names another machine */
int http_is_here(const char *url)
{
	struct in_addr v4;
	char host[256];

	if (host_of(url, host) < 0)
		return 0;
	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return !strcasecmp(host, "localhost") || !strcmp(host, "::1");
}

int http_is_private(const char *url)
{
	return !strncasecmp(url, "https:", 6) || http_is_here(url);
}

int http_has_user(const char *url)
{
	const char *scheme = strstr(url, "://"), *p = scheme ? scheme + 3 : url, *port;
	size_t n = strcspn(p, "/?#");

	if (memchr(p, '@', n))
		return 1;
	/* A password may contain '/', '?' or '#', as in "http://name:pa/ss@host". So if the text after ':' is not
	 * a port number, look for an '@' in the rest of the URL. */
	port = *p == '[' ? NULL : memchr(p, ':', n);
	return port && port + 1 + strspn(port + 1, "0123456789") < p + n && strchr(p, '@');
}
