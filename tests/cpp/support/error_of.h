// The message of an error.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel {

// Of an Error that is no UsageError; "" where none was thrown.
template <class Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const UsageError& error) {
    ADD_FAILURE() << "a UsageError: " << error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace cogwheel
