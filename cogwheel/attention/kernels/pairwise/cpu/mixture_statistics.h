// Statistics of a mixture's weights: a second sweep over the scores, because each weight combines members whose
// normalisers are known only after the first. Without values, hence half the products.
#pragma once
#include "cogwheel/attention/kernels/cpu/tile_product.h"
#include "cogwheel/attention/kernels/pairwise/cpu/pairwise_rows.h"
#include "cogwheel/attention/kernels/pairwise/cpu/row_statistics.h"

namespace cogwheel::HWY_NAMESPACE {

template <class Map, class T>
class MixtureStatisticsEngine {
  using V = Vector<T>;
  static constexpr bool has_energy = EnergyMap<Map, V>;
  static constexpr std::int64_t block_queries = 192, block_keys = 256, group_rows = 6;
  static constexpr int max_members = 2;

  // A member of the mixture for the queries of a block.
  struct Member {
    QueryHead<Map> head;
    const T* panels;  // of its keys, as pack_keys leaves them
    Rows<T> queries;
    T *shift, *factor, *scores;  // [rows], c/N [rows], [group_rows][block_keys]
  };

 public:
  explicit MixtureStatisticsEngine(const MixtureStatistics<T>& problem)
      : problem_(problem),
        shape_(problem.shape),
        modified_(problem.modifiers.any()),
        by_pairs_(problem.score_weight ? nullptr
                                       : pair_product_for(problem, problem.query, problem.key, shape_.head_dim)),
        panel_width_(panel_width_of(problem, by_pairs_)),
        panels_(panels_of(shape_.keys)) {}

  // Packs the keys of as many heads at a time as keep the workers busy, so that memory grows with their number only.
  void run(const Executor& executor) const {
    const std::int64_t groups = shape_.batch * shape_.value_heads, at_once = 4 * executor.workers();
    for (std::int64_t first = 0; first < groups; first += at_once)
      sweep(first, std::min(at_once, groups - first), executor);
  }

 private:
  // The heads of `count` value heads from `first`, counted through the batch.
  void sweep(std::int64_t first, std::int64_t count, const Executor& executor) const {
    const std::int64_t panels_size = panels_ * panel_keys * panel_width_, sub_heads = shape_.sub_heads;
    T* const packed = static_cast<T*>(
        thread_workspace(Scratch::call, static_cast<std::size_t>(count * sub_heads * panels_size) * sizeof(T)));
    executor.run(count * sub_heads, [&](std::int64_t index, int) {
      const std::int64_t value_head = first + index / sub_heads;
      pack(value_head / shape_.value_heads, value_head % shape_.value_heads * sub_heads + index % sub_heads,
           packed + index * panels_size);
    });
    const std::int64_t blocks = (shape_.queries + block_queries - 1) / block_queries;
    const std::int64_t heads = shape_.query_heads / sub_heads, sharing = heads / shape_.value_heads;
    executor.run(count * sharing * blocks, [&](std::int64_t index, int) {
      const std::int64_t block = blocks - 1 - index / (count * sharing), group = index / sharing % count;
      const std::int64_t batch = (first + group) / shape_.value_heads;
      const std::int64_t head = (first + group) % shape_.value_heads * sharing + index % sharing;
      sweep_block(batch, head, block * block_queries, packed + group * sub_heads * panels_size, panels_size);
    });
  }

  void pack(std::int64_t batch, std::int64_t key_head, T* packed) const {
    const bool widened = !problem_.key.is_compute_dtype() && !by_pairs_;
    T* const copy = static_cast<T*>(thread_workspace(
        Scratch::task, widened ? static_cast<std::size_t>(panel_keys * shape_.head_dim) * sizeof(T) : 0));
    for (std::int64_t first = 0; first < shape_.keys; first += panel_keys) {
      const std::int64_t count = std::min(panel_keys, shape_.keys - first);
      const Rows<T> keys = by_pairs_ ? pairs_of(problem_.key, batch, key_head, first)
                                     : rows_of(problem_.key, batch, key_head, first, count, shape_.head_dim, copy);
      pack_keys(problem_, keys, count, panel_width_, packed + first * panel_width_);
    }
  }

  struct Buffers {
    std::array<T*, max_members> shift, factor, scores, queries;
    T *visible, *energy_bias, *multipliers, *statistics, *ones;
  };

  Buffers take_buffers(WorkspaceLayout& layout) const {
    const auto rows = static_cast<std::size_t>(block_queries + V::lanes);
    const bool widened = !problem_.query.is_compute_dtype() && !by_pairs_;
    Buffers buffers;
    for (std::size_t m = 0; m < max_members; ++m) {
      buffers.shift[m] = layout.take<T>(rows);
      buffers.factor[m] = layout.take<T>(rows);
      buffers.scores[m] = layout.take<T>(group_rows * block_keys);
      buffers.queries[m] = layout.take<T>(widened ? rows * static_cast<std::size_t>(shape_.head_dim) : 0);
    }
    buffers.visible = layout.take<T>(rows);
    buffers.ones = layout.take<T>(rows);
    buffers.energy_bias = layout.take<T>(modified_ ? group_rows * block_keys : 0);
    buffers.multipliers = layout.take<T>(modified_ ? group_rows * block_keys : 0);
    buffers.statistics = layout.take<T>(rows * static_cast<std::size_t>(statistics_scratch<T>()));
    return buffers;
  }

  void sweep_block(std::int64_t batch, std::int64_t head, std::int64_t first_query, const T* packed,
                   std::int64_t panels_size) const {
    const PairProductUse use(by_pairs_);
    WorkspaceLayout measured;
    take_buffers(measured);
    WorkspaceLayout layout(thread_workspace(Scratch::task, measured.bytes()));
    const Buffers buffers = take_buffers(layout);
    const std::int64_t rows = std::min(block_queries, shape_.queries - first_query);
    const std::int64_t row = (batch * shape_.query_heads / shape_.sub_heads + head) * shape_.queries + first_query;
    std::array<Member, max_members> members;
    for (std::int64_t c = 0; c < shape_.sub_heads; ++c)
      members[static_cast<std::size_t>(c)] =
          member(batch, head * shape_.sub_heads + c, first_query, rows, row, packed + c * panels_size, buffers);
    clear_statistics(rows, buffers.statistics);

    const Visibility& visibility = members[0].head.visibility;
    const KeyRange seen = visibility.seen_by_any(first_query, rows);
    for (std::int64_t first_key = seen.begin / panel_keys * panel_keys; first_key < seen.end; first_key += block_keys)
      for (std::int64_t r = 0; r < rows; r += group_rows)
        sweep_group(members, first_query, r, std::min(group_rows, rows - r), first_key, buffers);
    std::fill_n(buffers.ones, rows, T(1));
    store_statistics<T>(rows, buffers.statistics, {buffers.ones, nullptr, buffers.visible}, problem_.statistics, row);
  }

  Member member(std::int64_t batch, std::int64_t index, std::int64_t first_query, std::int64_t rows, std::int64_t row,
                const T* panels, const Buffers& buffers) const {
    const auto c = static_cast<std::size_t>(index % shape_.sub_heads);
    Member made{.head = query_head_of<Map>(problem_, batch, index),
                .panels = panels,
                .queries = by_pairs_ ? pairs_of(problem_.query, batch, index, first_query)
                                     : rows_of(problem_.query, batch, index, first_query, rows, shape_.head_dim,
                                               buffers.queries[c]),
                .shift = buffers.shift[c],
                .factor = buffers.factor[c],
                .scores = buffers.scores[c]};
    const std::int64_t totals_at = (batch * shape_.query_heads + index) * shape_.queries + first_query;
    count_visible_keys(problem_, made.head, first_query, rows, buffers.visible);
    std::copy_n(problem_.shift + totals_at, rows, made.shift);
    for (std::int64_t r = 0; r < rows; r += V::lanes) {
      const std::int64_t count = std::min<std::int64_t>(V::lanes, rows - r);
      const auto totals =
          row_totals<Map, T>(made.head.map, problem_.mass + totals_at + r, made.shift + r, buffers.visible + r, count);
      for (std::int64_t i = 0; i < count; ++i)
        made.factor[r + i] = (c == 0 ? T(1) : problem_.coefficient[row + r + i]) / totals.value[i];
    }
    return made;
  }

  // Rows [r, r + rows) of the block against up to 256 keys.
  void sweep_group(const std::array<Member, max_members>& members, std::int64_t first_query, std::int64_t r,
                   std::int64_t rows, std::int64_t first_key, const Buffers& buffers) const {
    const Visibility& visibility = members[0].head.visibility;
    const KeyRange by_any = visibility.seen_by_any(first_query + r, rows);
    const std::int64_t begin = std::max<std::int64_t>(by_any.begin - first_key, 0);
    const std::int64_t end = std::min(by_any.end - first_key, block_keys);
    if (begin >= end) return;
    const std::int64_t first = begin / V::lanes * V::lanes, last = padded<T>(end);

    for (std::int64_t c = 0; c < shape_.sub_heads; ++c) {
      const Member& member = members[static_cast<std::size_t>(c)];
      for (std::int64_t x = first; x < last;) {
        const std::int64_t panel_end = std::min(x / panel_keys * panel_keys + panel_keys, last);
        const T* panel = member.panels + (first_key + x) / panel_keys * panel_keys * panel_width_;
        score_tile<T>(problem_, by_pairs_, member.head.index,
                      {rows,
                       std::min(panel_end, end) - x,
                       {member.queries.row(r), member.queries.stride},
                       keys_from(problem_, panel, x % panel_keys, panel_width_),
                       member.scores + x,
                       block_keys});
        x = panel_end;
      }
      if (modified_)
        modify_tile(
            problem_, has_energy,
            {member.head.batch, member.head.output_head, first_query + r, rows, first_key, first, last, block_keys},
            {member.scores, buffers.energy_bias, buffers.multipliers});
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      const KeyRange range = visibility.of(first_query + r + row);
      const RowSpan span{first, last, range.begin - first_key, std::min(range.end - first_key, last)};
      if (modified_)
        mix<true>(members, r + row, row * block_keys, span, buffers);
      else
        mix<false>(members, r + row, row * block_keys, span, buffers);
    }
    add_weights<T>({members[0].scores, block_keys, rows, first_key, first, last}, nullptr,
                   problem_.statistics.argmax_wanted, buffers.statistics + r * statistics_scratch<T>());
  }

  // Turns the scores of one row, at `at` in each member's tile, into the mixture's weights in the tile of the first.
  template <bool modified>
  void mix(const std::array<Member, max_members>& members, std::int64_t row, std::int64_t at, const RowSpan& span,
           const Buffers& buffers) const {
    const V visible_keys(buffers.visible[row]);
    const bool by_mean = shape_.sub_heads == 1;
    const V mean = V(T(1)) / visible_keys;
    const auto weight_of = [&](const Member& member, std::int64_t x) {
      V shift(member.shift[row]);
      if constexpr (modified) shift = shift - V::load(buffers.energy_bias + at + x);
      const V product = V::load(member.scores + at + x);
      const V score = modified ? product : V(problem_.scale) * product;
      return member.head.map.terms(score, Row<V>{.visible = visible_keys, .shift = shift}).weight *
             V(member.factor[row]);
    };
    T* const mixed = members[0].scores + at;
    for_each_vector<modified>(span, mixed, [&](std::int64_t x, const auto& visible) {
      V weight = weight_of(members[0], x);
      weight = by_mean ? weight - mean : weight + weight_of(members[1], x);
      if constexpr (modified) weight = weight * V::load(buffers.multipliers + at + x);
      visible(weight).store(mixed + x);
    });
  }

  const MixtureStatistics<T>& problem_;
  const PairwiseShape& shape_;
  bool modified_;
  const PairProduct* by_pairs_;  // multiplies bfloat16 pairs for the scores; null where not used
  std::int64_t panel_width_, panels_;
};

}  // namespace cogwheel::HWY_NAMESPACE
