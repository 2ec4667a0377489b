// The dispatcher's handle of an operator.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace cogwheel::ops {

// The operator of that name ("cogwheel::pairwise"), for calls with this signature. Takes a lock: keep the result.
template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace cogwheel::ops
