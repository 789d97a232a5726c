dnl SPDX-License-Identifier: MPL-2.0
dnl What configure asks of the machine. Nothing stops at the first miss: each
dnl is noted, and ZR_REPORT names them all, with the Debian packages.

dnl ZR_MISS(what, debian-package): note that something is missing.
AC_DEFUN([ZR_MISS], [
  zr_misses="$zr_misses
  - $1"
  zr_packages="$zr_packages $2"])

dnl ZR_REPORT: stop if anything was missing.
AC_DEFUN([ZR_REPORT], [
  AS_IF([test -n "$zr_misses"], [
    zr_packages=`echo $zr_packages | tr ' ' '\n' | sort -u | tr '\n' ' '`
    AC_MSG_ERROR([something is missing:
$zr_misses

On Debian:  apt-get install $zr_packages
(scripts/setup does this.)])])])

dnl ZR_VERSION_GE(a, b, if-true, if-false): dotted versions.
AC_DEFUN([ZR_VERSION_GE], [AS_VERSION_COMPARE([$1], [$2], [$4], [$3], [$3])])

dnl ZR_TOOL(VARIABLE, programs, debian-package): a program that must be there.
AC_DEFUN([ZR_TOOL], [
  AC_CHECK_PROGS([$1], [$2])
  AS_IF([test -z "$$1"], [ZR_MISS([one of these programs: $2], [$3])])])

dnl ZR_LIBRARY(label, pkg-config-name, least-version, debian-package, why)
dnl Sets zr_version (empty if missing).
AC_DEFUN([ZR_LIBRARY], [
  AC_MSG_CHECKING([for $1 >= $3])
  zr_version=
  AS_IF([test -n "$PKG_CONFIG"],
    [zr_version=`$PKG_CONFIG --modversion $2 2>/dev/null`])
  AS_IF([test -z "$zr_version"],
    [AC_MSG_RESULT([no])
     ZR_MISS([$1 $3 or later ($5)], [$4])],
    [ZR_VERSION_GE([$zr_version], [$3],
       [AC_MSG_RESULT([$zr_version])],
       [AC_MSG_RESULT([$zr_version is too old])
        ZR_MISS([$1 $3 or later ($5); found $zr_version], [$4])
        zr_version=])])])

dnl ZR_CARGO: cargo and rustc, of the version that Cargo.toml asks for.
AC_DEFUN([ZR_CARGO], [
  AC_ARG_VAR([CARGO], [cargo command])
  AC_ARG_VAR([RUSTC], [rustc command])
  AC_CHECK_PROGS([CARGO], [cargo])
  AC_CHECK_PROGS([RUSTC], [rustc])
  zr_rust_least=`sed -n 's/^rust-version = "\(.*\)"/\1/p' "$srcdir/Cargo.toml"`
  AC_MSG_CHECKING([for Rust >= $zr_rust_least])
  dnl run in the source, where a rust-toolchain file would take effect
  zr_rust_version=
  AS_IF([test -n "$RUSTC" && test -n "$CARGO"], [
    zr_rust_version=`cd "$srcdir" && $RUSTC --version 2>/dev/null | sed -n 's/^rustc \([[0-9.]]*\).*/\1/p'`
    zr_cargo_version=`cd "$srcdir" && $CARGO --version 2>/dev/null | sed -n 's/^cargo \([[0-9.]]*\).*/\1/p'`])
  zr_how_rust="Debian 13 and later: packages cargo and rustc;
    Debian 12, whose rustc is too old: packages cargo-web and rustc-web; anywhere: https://rustup.rs"
  AS_CASE([`sed -n 's/^VERSION_ID="*\([[0-9]]*\).*/\1/p' /etc/os-release 2>/dev/null`],
    [12], [zr_rust_packages="cargo-web rustc-web"],
    [zr_rust_packages="cargo rustc"])
  AS_IF([test -z "$zr_rust_version" || test -z "$zr_cargo_version"],
    [AC_MSG_RESULT([no])
     ZR_MISS([cargo and rustc $zr_rust_least or later, for the transport and to find libzmq's source
    ($zr_how_rust)], [$zr_rust_packages])],
    [ZR_VERSION_GE([$zr_rust_version], [$zr_rust_least],
       [AC_MSG_RESULT([$zr_rust_version])],
       [AC_MSG_RESULT([$zr_rust_version is too old])
        ZR_MISS([rustc $zr_rust_least or later; found $zr_rust_version
    ($zr_how_rust)], [$zr_rust_packages])])])])

dnl ZR_LIBCLANG: a libclang that bindgen 0.59 (of rdma-sys) understands. From
dnl 16 on the names of anonymous types changed, and the bindings come out wrong.
dnl Sets LIBCLANG_PATH.
AC_DEFUN([ZR_LIBCLANG], [
  AC_ARG_VAR([LIBCLANG_PATH], [libclang for bindgen: a file, or its directory])
  AC_MSG_CHECKING([for libclang up to 15])
  zr_clang=`LIBCLANG_PATH="$LIBCLANG_PATH" "$srcdir/scripts/find-libclang" 15`
  AS_IF([test -n "$zr_clang"],
    [LIBCLANG_PATH=$zr_clang
     AC_MSG_RESULT([$LIBCLANG_PATH])],
    [zr_found=`LIBCLANG_PATH="$LIBCLANG_PATH" "$srcdir/scripts/find-libclang" 999`
     AC_MSG_RESULT([no${zr_found:+, only $zr_found}])
     ZR_MISS([libclang 14 or 15 with its headers, for the bindings to rdma-core; --without-rdma-verbs to do without
    (16 and later name anonymous types otherwise; LIBCLANG_PATH tells where to look)],
       [libclang-14-dev])])])
