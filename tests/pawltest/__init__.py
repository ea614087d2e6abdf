# SPDX-License-Identifier: Apache-2.0
"""The gateway under test, the clients and the service at its two ends: of tests in every folder."""
