// The architectures, a file each.
#pragma once
#include "cogwheel/interchange/architecture.h"

namespace cogwheel {

Architecture bert_for_masked_lm();                // bert.cpp
Architecture bert_for_sequence_classification();  // bert.cpp
Architecture vit_for_image_classification();      // vit.cpp
Architecture u_vit_of_bao();                      // u_vit.cpp

}  // namespace cogwheel
