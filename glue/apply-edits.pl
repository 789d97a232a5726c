#!/usr/bin/env perl
# SPDX-License-Identifier: MPL-2.0
#
# Makes libzmq know rdma://: applies glue/libzmq.edits to a libzmq tree, and
# puts the glue and zmq_rdma.h into it.
#
#   apply-edits.pl --tree DIR --glue GLUEDIR [--edits FILE] [--header FILE]
#
# An anchor names a line by a piece of its text and must match exactly one line
# of its scope, so that an edit either lands where it was meant to or stops the
# build; line numbers and context do not matter. All edits are worked out
# before the first file is written: a tree is edited whole or not at all. The
# format is explained at the top of libzmq.edits.
use strict;
use warnings;
use Getopt::Long;

# A word that every edited tree contains and no stock one does.
my $mark = 'ZMQ_HAVE_RDMA';

my %arg;
GetOptions(\%arg, 'tree=s', 'glue=s', 'edits=s', 'header=s') && $arg{tree} && $arg{glue} && !@ARGV
    or die "usage: apply-edits.pl --tree DIR --glue GLUEDIR [--edits FILE] [--header FILE]\n";
my $edits_file = $arg{edits}  || "$arg{glue}/libzmq.edits";
my $header     = $arg{header} || "$arg{glue}/../include/zmq_rdma.h";

my $version = tree_version();
my ($range, @edits) = read_edits($edits_file);
within_range($version, $range)
    or fail("libzmq $version is outside the versions that the edits are for: $range");

my %text;
for my $edit (grep { within_range($version, $_->{only}) } @edits) {
    my $file = $edit->{file};
    $text{$file} = slurp("$arg{tree}/$file") unless exists $text{$file};
}
refuse_edited($_, $text{$_}) for sort keys %text;
$text{$_->{file}} = apply($_, $text{$_->{file}})
    for grep { within_range($version, $_->{only}) } @edits;
install();

sub fail {
    die "apply-edits: $_[0]\n";
}

sub slurp {
    my ($path) = @_;
    open my $in, '<:raw', $path or fail("cannot read $path: $!");
    local $/;
    return scalar <$in>;
}

sub tree_version {
    my $zmq_h = slurp("$arg{tree}/include/zmq.h");
    my @numbers = map { $zmq_h =~ /^#define ZMQ_VERSION_$_ (\d+)/m ? $1 : () } qw(MAJOR MINOR PATCH);
    @numbers == 3 or fail("$arg{tree}/include/zmq.h states no version");
    return join '.', @numbers;
}

# Whether a version lies in a range written "4.3.4 4.3.6"; no range holds all.
sub within_range {
    my ($is, $range) = @_;
    return 1 unless defined $range;
    my ($v, $low, $high) = map { sprintf '%04d%04d%04d', split /\./ } $is, split ' ', $range;
    return $low le $v && $v le $high;
}

# Parses the edits file: the range of versions, then the edits in order.
sub read_edits {
    my ($path) = @_;
    my ($range, $file, $only, %scope, @edits);
    my $number = 0;
    for (split /\n/, slurp($path)) {
        $number++;
        next if /^(#|\s*$)/;
        my ($word, $rest) = /^([a-z]+) (.*\S)\s*$/ ? ($1, $2) : ('', '');
        if (/^\|(.*)$/) {
            @edits or fail("$path:$number: text before the first edit");
            push @{$edits[-1]{lines}}, $1;
        } elsif ($word eq 'versions') {
            $range = $rest;
        } elsif ($word eq 'file') {
            $file = $rest;
        } elsif ($word eq 'only') {
            $only = $rest;
        } elsif ($word =~ /^(in|from|to)$/) {
            $scope{$word} = $rest;
        } elsif ($word =~ /^(before|after|replace)$/) {
            defined $file or fail("$path:$number: no file named yet");
            push @edits, {
                at => "$path:$number", file => $file, only => $only, scope => {%scope},
                how => $word, anchor => $rest, lines => [],
            };
            ($only, %scope) = (undef);
        } else {
            fail("$path:$number: not understood: $_");
        }
    }
    defined $range or fail("$path: no versions line");
    @{$_->{lines}} or fail("$_->{at}: an edit without text") for @edits;
    return ($range, @edits);
}

sub refuse_edited {
    my ($file, $text) = @_;
    fail("$arg{tree} is already edited: $file mentions $mark") if $text =~ /\b$mark\b/;
}

# The one line among those from $first to $last that contains $anchor.
sub find_line {
    my ($edit, $lines, $anchor, $first, $last, $where) = @_;
    my @found = grep { index($lines->[$_], $anchor) >= 0 } $first .. $last;
    return $found[0] if @found == 1;
    my $count = @found ? @found . ' lines match' : 'no line matches';
    my $numbers = @found ? ' (' . join(', ', map { $_ + 1 } @found) . ')' : '';
    fail("$edit->{file}$where: $count the anchor \"$anchor\"$numbers; it must be one ($edit->{at})");
}

# First and last line of an edit's scope, and how to name it.
sub scope_of {
    my ($edit, $lines) = @_;
    my ($first, $last, $where) = (0, $#$lines, '');
    my $scope = $edit->{scope};
    if (defined(my $signature = $scope->{in})) {
        my @starts = grep { index($lines->[$_], $signature) == 0 } 0 .. $#$lines;
        @starts == 1 or fail("$edit->{file}: " . @starts
            . " functions start with \"$signature\"; it must be one ($edit->{at})");
        $first = $starts[0];
        ($last) = grep { $lines->[$_] =~ /^\}/ } $first .. $#$lines;
        defined $last or fail("$edit->{file}: no end of \"$signature\" ($edit->{at})");
        $where = " in \"$signature\"";
    }
    $first = find_line($edit, $lines, $scope->{from}, $first, $last, $where) if defined $scope->{from};
    $last  = find_line($edit, $lines, $scope->{to}, $first, $last, $where)   if defined $scope->{to};
    return ($first, $last, $where);
}

sub apply {
    my ($edit, $text) = @_;
    my @lines = split /\n/, $text, -1;
    my ($first, $last, $where) = scope_of($edit, \@lines);
    my $line = find_line($edit, \@lines, $edit->{anchor}, $first, $last, $where);
    if ($edit->{how} eq 'replace') {
        my $at = index $lines[$line], $edit->{anchor};
        index($lines[$line], $edit->{anchor}, $at + 1) < 0
            or fail("$edit->{file}: line " . ($line + 1)
                . " has the anchor \"$edit->{anchor}\" twice ($edit->{at})");
        substr $lines[$line], $at, length $edit->{anchor}, join "\n", @{$edit->{lines}};
    } else {
        splice @lines, $line + ($edit->{how} eq 'after'), 0, @{$edit->{lines}};
    }
    return join "\n", @lines;
}

# Writes everything beside its place first, so that a full disk leaves the tree as it was.
sub install {
    my @glue = glob "$arg{glue}/*.[ch]pp";
    @glue or fail("no glue in $arg{glue}");
    my %new = map { ("$arg{tree}/$_" => $text{$_}) } keys %text;
    $new{"$arg{tree}/src/" . s{.*/}{}r} = slurp($_) for @glue;
    $new{"$arg{tree}/include/zmq_rdma.h"} = slurp($header);
    my @paths = sort keys %new;
    my $done = eval { stage($_, $new{$_}) for @paths; 1 };
    unless ($done) {
        my $why = $@;
        unlink map { "$_.edited" } @paths;
        die $why;
    }
    for (@paths) {
        rename "$_.edited", $_ or fail("cannot rename $_.edited: $! (the tree is half edited)");
    }
}

sub stage {
    my ($path, $content) = @_;
    my $mode = -e $path ? (stat _)[2] & 0777 : 0644;
    open my $out, '>:raw', "$path.edited" or fail("cannot write $path.edited: $!");
    print $out $content or fail("cannot write $path.edited: $!");
    close $out or fail("cannot write $path.edited: $!");
    chmod $mode, "$path.edited" or fail("cannot set the mode of $path.edited: $!");
}
