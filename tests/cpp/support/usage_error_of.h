// The message of the UsageError that a call throws.
#pragma once
#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel {

template <class Call>
std::string usage_error_of(Call&& call) {
  try {
    call();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace cogwheel
