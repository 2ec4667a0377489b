// Opens the region of one Highway target: everything after it is compiled for COGWHEEL_HWY_TARGET.
//
// One translation unit per instruction set, instead of Highway's repeated inclusion, so that mechanism headers are
// ordinary headers: read inside the region, their templates are compiled for the target. What they include from the
// standard library is read before the region, so that no shared inline function is ever compiled for a machine that
// may not have the instructions. So are the interfaces of a family, which its units read before this file.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cogwheel/attention/kernels/cpu/pair_product.h"
#include "cogwheel/attention/kernels/cpu/pair_rows.h"
#include "cogwheel/attention/kernels/cpu/workspace.h"
#include "cogwheel/attention/kernels/heads_view.h"
#include "cogwheel/attention/kernels/key_panels.h"
#include "cogwheel/core/parallel.h"
#include "cogwheel/core/philox.h"
#include "cogwheel/core/visibility.h"

#include <hwy/detect_targets.h>
#undef HWY_TARGET
#define HWY_TARGET COGWHEEL_HWY_TARGET
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
