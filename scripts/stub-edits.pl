#!/usr/bin/env perl
# SPDX-License-Identifier: MPL-2.0
# Stands in for glue/apply-edits.pl until that exists: only the Rust object
# gets in, nothing calls it.
use strict;
use warnings;
my $tree = $ARGV[1];
sub edit {
    my ($file, $anchor, $text) = @_;
    open my $in, '<', "$tree/$file" or die "$file: $!\n";
    my $all = do { local $/; <$in> };
    close $in;
    (my @n) = $all =~ /$anchor/mg;
    die "$file: anchor matches " . @n . " times\n" unless @n == 1;
    $all =~ s/($anchor)/$text$1/m;
    open my $out, '>', "$tree/$file" or die "$file: $!\n";
    print $out $all;
    close $out;
}
edit('Makefile.am', qr/^if USE_NSS/m, <<'END');
if HAVE_RDMA
src_libzmq_la_LIBADD += ${ZMQ_RDMA_LO} ${ZMQ_RDMA_LIBS}
EXTRA_src_libzmq_la_DEPENDENCIES = ${ZMQ_RDMA_LO}
endif

END
edit('configure.ac', qr/^# Set -Wall, -Werror and -pedantic/m, <<'END');
AC_ARG_VAR([ZMQ_RDMA_LO], [libtool object of the RDMA library])
AC_ARG_VAR([ZMQ_RDMA_LIBS], [libraries that the RDMA transport needs])
AC_ARG_VAR([ZMQ_RDMA_REQUIRES], [pkg-config names of libraries that the RDMA transport needs])
AC_ARG_WITH([rdma], [], [with_rdma_ext=$withval], [with_rdma_ext=no])
AC_DEFINE([ZMQ_HAVE_RDMA], [1], [Have rdma transport])
PKGCFG_LIBS_PRIVATE="$PKGCFG_LIBS_PRIVATE $ZMQ_RDMA_LIBS"
PKGCFG_NAMES_PRIVATE="$PKGCFG_NAMES_PRIVATE $ZMQ_RDMA_REQUIRES"
AM_CONDITIONAL(HAVE_RDMA, test "x$with_rdma_ext" != "xno")
END
edit('Makefile.am', qr/^src_libzmq_la_SOURCES = /m, "include_HEADERS += include/zmq_rdma.h\n");
system('cp', "$ARGV[3]/../include/zmq_rdma.h", "$tree/include/");
