// What `cogwheel sample` does with a language model.
#pragma once
#include "cogwheel/runs/sampler.h"

namespace cogwheel::tasks::language {

runs::Sampler text_sampler();

}  // namespace cogwheel::tasks::language
