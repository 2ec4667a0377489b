// Rows of bfloat16 pairs for products with weights (pair_product.h), by AVX512-BF16: pairs of two rows, and weights
// rounded to bfloat16.
#pragma once
#include <cstdint>

namespace cogwheel {

// `count` rows of `width` elements → pairs [(count + 1)/2][to_row]: element d of rows 2p and 2p + 1 beside each other,
// 0 beyond count and width. Returns whether any element is infinite or NaN. Only where machine_has_avx512_bf16().
bool pair_rows(const std::uint16_t* from, std::int64_t row_stride, std::int64_t count, std::int64_t width, float* to,
               std::int64_t to_row);

// Rounds `columns` floats of each row, up to a multiple of 16 of them, to nearest even, and leaves their pairs at the
// front of a row of `to`, which may begin at or before that of `from`.
void round_to_pairs(std::int64_t rows, std::int64_t columns, const float* from, std::int64_t from_row, float* to,
                    std::int64_t to_row);

// The same numbers, times factors [rows] unless that is null (0 stays 0, whatever the factor), in pairs of two rows
// [(rows + 1)/2][to_row], 0 beyond an odd number of rows.
void round_to_pairs_of_rows(std::int64_t rows, std::int64_t columns, const float* from, std::int64_t from_row,
                            const float* factors, float* to, std::int64_t to_row);

// Pairs of one row, of which only the lower or the upper elements, both or none count: the others become 0.
void select_of_pairs(const float* from, std::int64_t width, bool lower, bool upper, float* to);

}  // namespace cogwheel
