/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openssl: OpenSSL's libraries, loaded when something is first signed or sent over TLS, and kept.
 * Linked, their 24,000 relocations made each start of `pawl` 1.4 ms longer (of 3), also of the
 * commands that know no secret and call nobody. Its functions are called by their own names.
 */
#ifndef PAWL_BASE_OPENSSL_H
#define PAWL_BASE_OPENSSL_H

/* HMAC by the interface of 1.1.1: EVP looks up and allocates for every message. Asking for it keeps
 * the compiler quiet about what OpenSSL 3 deprecates. */
#define OPENSSL_API_COMPAT 0x10101000L

#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#define OPENSSL_FUNCTIONS(X)                                                                       \
    X(BIO_clear_flags)                                                                             \
    X(BIO_free)                                                                                    \
    X(BIO_get_data)                                                                                \
    X(BIO_meth_free)                                                                               \
    X(BIO_meth_new)                                                                                \
    X(BIO_meth_set_ctrl)                                                                           \
    X(BIO_meth_set_read)                                                                           \
    X(BIO_meth_set_write)                                                                          \
    X(BIO_new)                                                                                     \
    X(BIO_set_data)                                                                                \
    X(BIO_set_flags)                                                                               \
    X(BIO_set_init)                                                                                \
    X(CRYPTO_memcmp)                                                                               \
    X(ERR_clear_error)                                                                             \
    X(ERR_get_error)                                                                               \
    X(ERR_peek_error)                                                                              \
    X(ERR_peek_last_error)                                                                         \
    X(ERR_reason_error_string)                                                                     \
    X(EVP_DigestSign)                                                                              \
    X(EVP_DigestSignInit)                                                                          \
    X(EVP_DigestVerify)                                                                            \
    X(EVP_DigestVerifyInit)                                                                        \
    X(EVP_MD_CTX_free)                                                                             \
    X(EVP_MD_CTX_new)                                                                              \
    X(EVP_PKEY_free)                                                                               \
    X(EVP_PKEY_get_raw_public_key)                                                                 \
    X(EVP_PKEY_new_raw_private_key)                                                                \
    X(EVP_PKEY_new_raw_public_key)                                                                 \
    X(EVP_sha1)                                                                                    \
    X(EVP_sha256)                                                                                  \
    X(EVP_sha512)                                                                                  \
    X(HMAC_CTX_free)                                                                               \
    X(HMAC_CTX_new)                                                                                \
    X(HMAC_Final)                                                                                  \
    X(HMAC_Init_ex)                                                                                \
    X(HMAC_Update)                                                                                 \
    X(OpenSSL_version)                                                                             \
    X(SSL_CTX_ctrl)                                                                                \
    X(SSL_CTX_free)                                                                                \
    X(SSL_CTX_get0_param)                                                                          \
    X(SSL_CTX_load_verify_file)                                                                    \
    X(SSL_CTX_new)                                                                                 \
    X(SSL_CTX_set_alpn_protos)                                                                     \
    X(SSL_CTX_set_cert_cb)                                                                         \
    X(SSL_CTX_set_default_passwd_cb)                                                               \
    X(SSL_CTX_set_default_verify_paths)                                                            \
    X(SSL_CTX_set_options)                                                                         \
    X(SSL_CTX_set_verify)                                                                          \
    X(SSL_CTX_up_ref)                                                                              \
    X(SSL_CTX_use_PrivateKey_file)                                                                 \
    X(SSL_CTX_use_certificate_chain_file)                                                          \
    X(SSL_ctrl)                                                                                    \
    X(SSL_do_handshake)                                                                            \
    X(SSL_free)                                                                                    \
    X(SSL_get0_param)                                                                              \
    X(SSL_get_error)                                                                               \
    X(SSL_get_ex_data)                                                                             \
    X(SSL_get_verify_result)                                                                       \
    X(SSL_has_pending)                                                                             \
    X(SSL_new)                                                                                     \
    X(SSL_read_ex)                                                                                 \
    X(SSL_set_bio)                                                                                 \
    X(SSL_set_connect_state)                                                                       \
    X(SSL_set_ex_data)                                                                             \
    X(SSL_shutdown)                                                                                \
    X(SSL_version)                                                                                 \
    X(SSL_write_ex)                                                                                \
    X(TLS_client_method)                                                                           \
    X(X509_VERIFY_PARAM_set1_host)                                                                 \
    X(X509_VERIFY_PARAM_set1_ip_asc)                                                               \
    X(X509_VERIFY_PARAM_set_flags)                                                                 \
    X(X509_VERIFY_PARAM_set_hostflags)                                                             \
    X(X509_verify_cert_error_string)

struct openssl {
#define X(name) __typeof__(name) *name;
    OPENSSL_FUNCTIONS(X)
#undef X
};

/* Filled by openssl_load, and not written after that. */
extern struct openssl openssl;

/* From any thread; before any of its functions. NULL: loaded; else what is wrong, a literal. Reads
 * files at its first call. */
const char *openssl_load(void);

#ifndef OPENSSL_LOADS /* where their names are needed as such */
#define BIO_clear_flags openssl.BIO_clear_flags
#define BIO_free openssl.BIO_free
#define BIO_get_data openssl.BIO_get_data
#define BIO_meth_free openssl.BIO_meth_free
#define BIO_meth_new openssl.BIO_meth_new
#define BIO_meth_set_ctrl openssl.BIO_meth_set_ctrl
#define BIO_meth_set_read openssl.BIO_meth_set_read
#define BIO_meth_set_write openssl.BIO_meth_set_write
#define BIO_new openssl.BIO_new
#define BIO_set_data openssl.BIO_set_data
#define BIO_set_flags openssl.BIO_set_flags
#define BIO_set_init openssl.BIO_set_init
#define CRYPTO_memcmp openssl.CRYPTO_memcmp
#define ERR_clear_error openssl.ERR_clear_error
#define ERR_get_error openssl.ERR_get_error
#define ERR_peek_error openssl.ERR_peek_error
#define ERR_peek_last_error openssl.ERR_peek_last_error
#define ERR_reason_error_string openssl.ERR_reason_error_string
#define EVP_DigestSign openssl.EVP_DigestSign
#define EVP_DigestSignInit openssl.EVP_DigestSignInit
#define EVP_DigestVerify openssl.EVP_DigestVerify
#define EVP_DigestVerifyInit openssl.EVP_DigestVerifyInit
#define EVP_MD_CTX_free openssl.EVP_MD_CTX_free
#define EVP_MD_CTX_new openssl.EVP_MD_CTX_new
#define EVP_PKEY_free openssl.EVP_PKEY_free
#define EVP_PKEY_get_raw_public_key openssl.EVP_PKEY_get_raw_public_key
#define EVP_PKEY_new_raw_private_key openssl.EVP_PKEY_new_raw_private_key
#define EVP_PKEY_new_raw_public_key openssl.EVP_PKEY_new_raw_public_key
#define EVP_sha1 openssl.EVP_sha1
#define EVP_sha256 openssl.EVP_sha256
#define EVP_sha512 openssl.EVP_sha512
#define HMAC_CTX_free openssl.HMAC_CTX_free
#define HMAC_CTX_new openssl.HMAC_CTX_new
#define HMAC_Final openssl.HMAC_Final
#define HMAC_Init_ex openssl.HMAC_Init_ex
#define HMAC_Update openssl.HMAC_Update
#define OpenSSL_version openssl.OpenSSL_version
#define SSL_CTX_ctrl openssl.SSL_CTX_ctrl
#define SSL_CTX_free openssl.SSL_CTX_free
#define SSL_CTX_get0_param openssl.SSL_CTX_get0_param
#define SSL_CTX_load_verify_file openssl.SSL_CTX_load_verify_file
#define SSL_CTX_new openssl.SSL_CTX_new
#define SSL_CTX_set_alpn_protos openssl.SSL_CTX_set_alpn_protos
#define SSL_CTX_set_cert_cb openssl.SSL_CTX_set_cert_cb
#define SSL_CTX_set_default_passwd_cb openssl.SSL_CTX_set_default_passwd_cb
#define SSL_CTX_set_default_verify_paths openssl.SSL_CTX_set_default_verify_paths
#define SSL_CTX_set_options openssl.SSL_CTX_set_options
#define SSL_CTX_set_verify openssl.SSL_CTX_set_verify
#define SSL_CTX_up_ref openssl.SSL_CTX_up_ref
#define SSL_CTX_use_PrivateKey_file openssl.SSL_CTX_use_PrivateKey_file
#define SSL_CTX_use_certificate_chain_file openssl.SSL_CTX_use_certificate_chain_file
#define SSL_ctrl openssl.SSL_ctrl
#define SSL_do_handshake openssl.SSL_do_handshake
#define SSL_free openssl.SSL_free
#define SSL_get0_param openssl.SSL_get0_param
#define SSL_get_error openssl.SSL_get_error
#define SSL_get_ex_data openssl.SSL_get_ex_data
#define SSL_get_verify_result openssl.SSL_get_verify_result
#define SSL_has_pending openssl.SSL_has_pending
#define SSL_new openssl.SSL_new
#define SSL_read_ex openssl.SSL_read_ex
#define SSL_set_bio openssl.SSL_set_bio
#define SSL_set_connect_state openssl.SSL_set_connect_state
#define SSL_set_ex_data openssl.SSL_set_ex_data
#define SSL_shutdown openssl.SSL_shutdown
#define SSL_version openssl.SSL_version
#define SSL_write_ex openssl.SSL_write_ex
#define TLS_client_method openssl.TLS_client_method
#define X509_VERIFY_PARAM_set1_host openssl.X509_VERIFY_PARAM_set1_host
#define X509_VERIFY_PARAM_set1_ip_asc openssl.X509_VERIFY_PARAM_set1_ip_asc
#define X509_VERIFY_PARAM_set_flags openssl.X509_VERIFY_PARAM_set_flags
#define X509_VERIFY_PARAM_set_hostflags openssl.X509_VERIFY_PARAM_set_hostflags
#define X509_verify_cert_error_string openssl.X509_verify_cert_error_string
#endif

#endif
