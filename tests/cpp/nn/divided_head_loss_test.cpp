#include "cogwheel/nn/losses/divided_head_loss.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <barrier>
#include <thread>
#include <vector>

#include "cogwheel/nn/ranks/divided_embedding.h"

namespace cogwheel::nn::divided_head_loss_test {
namespace {

constexpr std::int64_t ranks = 3, share = 5, tokens = 11, width = 4;

// Threads that exchange what ranks do.
class Meeting {
 public:
  std::vector<at::Tensor> all(std::int64_t rank, const at::Tensor& own) {
    there_[static_cast<std::size_t>(rank)] = own;
    together_.arrive_and_wait();
    std::vector<at::Tensor> found = there_;
    together_.arrive_and_wait();
    return found;
  }

 private:
  std::barrier<> together_{ranks};
  std::vector<at::Tensor> there_ = std::vector<at::Tensor>(ranks);
};

class ThreadAsRank : public SharedHeads {
 public:
  ThreadAsRank(Meeting& meeting, std::int64_t rank) : meeting_(meeting), rank_(rank) {}
  std::int64_t rank() const override { return rank_; }
  std::int64_t count() const override { return ranks; }
  // Without its derivative, which is another exchange.
  at::Tensor sum(const at::Tensor& part, const std::string&) const override {
    return at::stack(meeting_.all(rank_, part)).sum(0);
  }
  at::Tensor of_each(const at::Tensor& own, const std::string&) const override {
    return at::stack(meeting_.all(rank_, own));
  }
  at::Tensor own(const at::Tensor& tensor, std::int64_t dim) const override {
    return tensor.narrow(dim, rank_ * share, share);
  }

 private:
  Meeting& meeting_;
  std::int64_t rank_;
};

struct Head {
  at::Tensor x, weight, bias, targets;
};

Head head(double scale) {
  torch::manual_seed(4);
  const auto numbers = at::TensorOptions(at::kDouble);
  return {at::randn({tokens, width}, numbers) * scale, at::randn({ranks * share, width}, numbers) * scale,
          at::randn({ranks * share}, numbers), at::randint(ranks * share, {tokens}, at::kLong)};
}

// The dense formula; in blocks of one row and in one block; logits in the hundreds too.
TEST(DividedHeadLoss, IsTheCrossEntropyOfTheWholeVocabulary) {
  for (const double scale : {1.0, 20.0})
    for (const std::int64_t logits_bytes : {std::int64_t{1}, head_logits_bytes}) {
      Head whole = head(scale);
      for (at::Tensor* each : {&whole.x, &whole.weight, &whole.bias}) each->set_requires_grad(true);
      at::cross_entropy_loss(at::addmm(whole.bias, whole.x, whole.weight.t()), whole.targets).backward();
      const double expected =
          at::cross_entropy_loss(at::addmm(whole.bias, whole.x, whole.weight.t()), whole.targets).item<double>();
      Meeting meeting;
      std::vector<Head> heads(ranks);
      std::vector<double> losses(ranks);
      std::vector<std::thread> threads;
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
          const ThreadAsRank here(meeting, rank);
          Head& own = heads[static_cast<std::size_t>(rank)];
          own = {whole.x.detach().clone(), here.own(whole.weight.detach(), 0).clone(),
                 here.own(whole.bias.detach(), 0).clone(), whole.targets};
          for (at::Tensor* each : {&own.x, &own.weight, &own.bias}) each->set_requires_grad(true);
          const at::Tensor loss = divided_head_loss(own.x, own.weight, own.bias, own.targets, here, logits_bytes);
          losses[static_cast<std::size_t>(rank)] = loss.item<double>();
          loss.backward();
        });
      for (std::thread& each : threads) each.join();
      double loss = 0;
      at::Tensor of_x = at::zeros_like(whole.x);
      std::vector<at::Tensor> of_weight, of_bias;
      for (std::size_t rank = 0; rank < heads.size(); ++rank) {
        loss += losses[rank];
        of_x = of_x + heads[rank].x.grad();
        of_weight.push_back(heads[rank].weight.grad());
        of_bias.push_back(heads[rank].bias.grad());
      }
      EXPECT_NEAR(loss, expected, 1e-12 * std::abs(expected));
      EXPECT_LT((of_x - whole.x.grad()).abs().max().item<double>(), 1e-12 * scale);
      EXPECT_LT((at::cat(of_weight) - whole.weight.grad()).abs().max().item<double>(), 1e-12 * scale);
      EXPECT_LT((at::cat(of_bias) - whole.bias.grad()).abs().max().item<double>(), 1e-12);
    }
}

TEST(DividedEmbedding, HasTheRowsOfAllTokens) {
  const Head whole = head(1);
  Meeting meeting;
  std::vector<at::Tensor> found(ranks);
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const ThreadAsRank here(meeting, rank);
      found[static_cast<std::size_t>(rank)] = embedded_rows_of_ranks(here.own(whole.weight, 0), whole.targets, here);
    });
  for (std::thread& each : threads) each.join();
  for (const at::Tensor& each : found) EXPECT_TRUE(at::equal(each, at::embedding(whole.weight, whole.targets)));
}

}  // namespace
}  // namespace cogwheel::nn::divided_head_loss_test
