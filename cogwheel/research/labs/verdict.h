// What numbers say of a claim: that it holds, that the opposite holds, or that they cannot tell.
#pragma once
#include <string_view>

namespace cogwheel::labs {

enum class Verdict { agrees, contradicts, cannot_tell };

std::string_view verdict_name(Verdict verdict);  // "agrees", "contradicts", "cannot tell"

}  // namespace cogwheel::labs
