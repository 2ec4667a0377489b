// The errors that Cogwheel reports. The library throws; only `main` turns an error into an exit code.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace cogwheel {

// A problem outside the program: files, data, memory, numbers. Exit code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  virtual int exit_code() const noexcept { return 1; }
};

// A file that the system does not take: a full disk, a quota, no permission. What is done next would end alike.
class WriteError : public Error {
 public:
  using Error::Error;
};

// Wrong usage: an unknown command, option, name or value. Exit code 2.
class UsageError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 2; }
};

// Stopped on request, with the work so far saved. Exit code 130.
class Interrupted : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 130; }
};

// The form of every message, one line: "<what>: expected <expected>, got <got>". An empty text reads as "nothing".
std::string expected_got(std::string_view what, std::string_view expected, std::string_view got);

// A message made safe for one line of a terminal: newlines become spaces, other control characters become ?.
std::string one_line(std::string_view message);

}  // namespace cogwheel
