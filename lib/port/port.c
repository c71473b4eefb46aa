/* SPDX-License-Identifier: BSD-2-Clause */
typedef int placeholder_port;
