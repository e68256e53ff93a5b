# A kernel of Perl for sessions: ../README.md has the protocol. Subs, modules and package variables stay from cell to cell, and so do those
# that a "my" outside of blocks declares, which is made an "our". A cell has a value if it does not end with a semicolon, or print.
package Kernel;
use JSON::PP;
use Data::Dumper;
use IO::Handle;

my $pid = $$;
my $bytes = JSON::PP->new->allow_nonref;
my $json  = JSON::PP->new->allow_nonref->utf8;
my %ours  = map { $_ => 1 } keys %main::;
our ($busy, $trace, %declared);
$Data::Dumper::Terse = $Data::Dumper::Indent = $Data::Dumper::Sortkeys = 1;
$| = 1;
open my $in, '<&=', 3 or die "descriptor 3: $!";     # programs that cells start do not inherit it
open my $out, '>&=', 3 or die "descriptor 3: $!";
$SIG{INT} = sub { die "interrupted\n" if $busy };    # what comes between cells is too late
*CORE::GLOBAL::exit = sub { $$ == $pid ? die bless [$_[0] // 0], 'Kernel::Exit' : CORE::exit($_[0] // 0) };

sub reply { print $out $json->encode({@_}), "\n" and $out->flush or CORE::exit(1) }
sub text  { my $t = shift; utf8::decode($t); $t }    # strings of a program are bytes
sub shown { text(ref $_[0] ? Dumper($_[0]) : $_[0] // 'undef') }
sub main::display { reply(op => 'display', id => $Kernel::id, data => {'text/plain' => shown($_[0])}) }

sub run {
    my ($code, $name, $env) = @{$_[0]}{qw(code name env)};
    utf8::encode($_) for $code, values %$env;
    my %now;
    1 while $code =~ s/^((?:[^\s{][^{\n]*;[ \t]*)?)my\b(?=\s*(\([^)]*\)|[\$\@%]\w+))/my $line = $1; @now{$2 =~ m{[\$\@%]\w+}g} = (); $line . 'our'/me;
    my $before = join ' ', map "our $_;", grep !exists $now{$_}, keys %declared;
    @declared{keys %now} = ();
    @ENV{keys %$env} = values %$env;
    ($., $trace) = (0, '');
    local $SIG{__DIE__} = sub {
        $trace = "$_[0]";
        for (my $i = 1; (my @from = caller $i)[1] ne __FILE__; $i++) { $trace .= "  in $from[3], called at $from[1] line $from[2]\n" }
    };
    my @values = eval {
        local $busy = 1;
        my @v = eval "package main; $before\n#line 1 \"$name\"\n$code";
        if (ref $@ or $@ ne '') { local $SIG{__DIE__}; die $@ }
        @v;
    };
    my $error = $@;
    CORE::exit(0) if $$ != $pid;                      # a process that the cell has forked, and forgotten
    print {$_} "\0$_[0]{mark}\0" for *STDERR, *STDOUT;
    return exit => 0 + $error->[0] if ref $error eq 'Kernel::Exit';
    return error => {type => ref $error || 'die', message => text("$error"), traceback => text($trace || "$error")} if ref $error or $error ne '';
    return $code !~ /(?:;\s*|(?:^|;)\s*(?:print|printf|say)\b[^;]*)\z/ && @values ? (value => {'text/plain' => join ' ', map shown($_), @values}) : ();
}

sub get {
    my $name = "main::$_[0]{key}";
    my $value = defined $$name ? $$name : @$name ? \@$name : %$name ? \%$name : die "there is no variable $_[0]{key}\n";
    return json => $json->decode($bytes->encode($value));
}

sub set { ${"main::$_[0]{key}"} = $bytes->decode($json->encode($_[0]{value})); return }

sub vars {
    my @names = grep { /^[a-z]\w*$/i && !$ours{$_} && eval { get({key => $_}); 1 } } sort keys %main::;
    return vars => [map { my ($n, $v) = ($_, (get({key => $_}))[1]); {name => $n, type => ref $v || 'scalar', text => substr $bytes->encode($v), 0, 100} } @names];
}

reply(op => 'ready', ops => [qw(get set vars)]);
while (my $line = <$in>) {
    my $q = $json->decode($line);
    $Kernel::id = $q->{id};
    my @answer = eval { Kernel->can($q->{op})->($q) };
    @answer = (error => {type => 'die', message => text("$@"), traceback => ''}) if $@;
    reply(op => 'done', id => $q->{id}, @answer);
}
