// Output whose reader has left, as `head` does when it has enough: jobs save and stop, and the process ends quietly, as
// of the signal that such a pipe sends. The signal itself is ignored until then: it would end a job that is being
// saved.
#pragma once

namespace cogwheel::cli {

// Call once, at the start of the process.
void keep_going_at_closed_pipes();

// Whether something was written to standard output or standard error after its reader had left.
bool wrote_to_closed_pipe();

// Whether nobody reads what is written to a descriptor any more.
bool reader_left(int descriptor);

// Ends the process as of SIGPIPE: in a shell, status 141.
[[noreturn]] void end_as_of_closed_pipe();

}  // namespace cogwheel::cli
