/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libpq: PostgreSQL's library, loaded when the first store there is opened, and kept. It brings 22
 * other libraries, and linked it made each start of `pawl` 3 ms longer (2 of 5.4 ms are left):
 * more than what `pawl queue add` on a file does. Its functions are called by their own names.
 */
#ifndef PAWL_STORE_POSTGRES_LIBPQ_H
#define PAWL_STORE_POSTGRES_LIBPQ_H

#include <libpq-fe.h>
#include <stdbool.h>

#define LIBPQ_FUNCTIONS(X)                                                                         \
    X(backendPID)                                                                                  \
    X(clear)                                                                                       \
    X(cmdStatus)                                                                                   \
    X(cmdTuples)                                                                                   \
    X(connectdbParams)                                                                             \
    X(conninfo)                                                                                    \
    X(conninfoFree)                                                                                \
    X(conninfoParse)                                                                               \
    X(consumeInput)                                                                                \
    X(enterPipelineMode)                                                                           \
    X(errorMessage)                                                                                \
    X(exec)                                                                                        \
    X(execParams)                                                                                  \
    X(finish)                                                                                      \
    X(flush)                                                                                       \
    X(freemem)                                                                                     \
    X(getResult)                                                                                   \
    X(getisnull)                                                                                   \
    X(getlength)                                                                                   \
    X(getvalue)                                                                                    \
    X(isBusy)                                                                                      \
    X(libVersion)                                                                                  \
    X(ntuples)                                                                                     \
    X(pipelineSync)                                                                                \
    X(resultErrorField)                                                                            \
    X(resultErrorMessage)                                                                          \
    X(resultStatus)                                                                                \
    X(sendPrepare)                                                                                 \
    X(sendQueryParams)                                                                             \
    X(sendQueryPrepared)                                                                           \
    X(setNoticeReceiver)                                                                           \
    X(setnonblocking)                                                                              \
    X(socket)                                                                                      \
    X(status)                                                                                      \
    X(transactionStatus)

struct libpq {
#define X(name) __typeof__(PQ##name) *name;
    LIBPQ_FUNCTIONS(X)
#undef X
};

/* Filled by libpq_load, and not written after that. */
extern struct libpq libpq;

/* From any thread; before any of its functions. NULL: loaded; else what is wrong, a literal. */
const char *libpq_load(void);

#define PQbackendPID libpq.backendPID
#define PQclear libpq.clear
#define PQcmdStatus libpq.cmdStatus
#define PQcmdTuples libpq.cmdTuples
#define PQconnectdbParams libpq.connectdbParams
#define PQconninfo libpq.conninfo
#define PQconninfoFree libpq.conninfoFree
#define PQconninfoParse libpq.conninfoParse
#define PQconsumeInput libpq.consumeInput
#define PQenterPipelineMode libpq.enterPipelineMode
#define PQerrorMessage libpq.errorMessage
#define PQexec libpq.exec
#define PQexecParams libpq.execParams
#define PQfinish libpq.finish
#define PQflush libpq.flush
#define PQfreemem libpq.freemem
#define PQgetResult libpq.getResult
#define PQgetisnull libpq.getisnull
#define PQgetlength libpq.getlength
#define PQgetvalue libpq.getvalue
#define PQisBusy libpq.isBusy
#define PQlibVersion libpq.libVersion
#define PQntuples libpq.ntuples
#define PQpipelineSync libpq.pipelineSync
#define PQresultErrorField libpq.resultErrorField
#define PQresultErrorMessage libpq.resultErrorMessage
#define PQresultStatus libpq.resultStatus
#define PQsendPrepare libpq.sendPrepare
#define PQsendQueryParams libpq.sendQueryParams
#define PQsendQueryPrepared libpq.sendQueryPrepared
#define PQsetNoticeReceiver libpq.setNoticeReceiver
#define PQsetnonblocking libpq.setnonblocking
#define PQsocket libpq.socket
#define PQstatus libpq.status
#define PQtransactionStatus libpq.transactionStatus

#endif
