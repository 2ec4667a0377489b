#include "cogwheel/tasks/images/data/image_source.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "cogwheel/tasks/images/data/given_images.h"
#include "cogwheel/tasks/images/data/image_files.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"
#include "tasks/images/image_writers.h"

namespace cogwheel::tasks::images {
namespace {

using PixelSet = std::set<std::vector<std::uint8_t>>;

PixelSet pixels_of(const ImageSource& source, ImagePart part) {
  PixelSet all;
  for (std::int64_t index = 0; index < source.images(part); ++index) all.insert(source.image(part, index).pixels);
  return all;
}

bool share_an_image(const PixelSet& a, const PixelSet& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& image) { return b.contains(image); });
}

// Records of CIFAR-10, each with its number in every byte.
std::string cifar_records(int first, int count) {
  std::string bytes;
  for (int number = first; number < first + count; ++number)
    bytes += static_cast<char>(number % 10) + std::string(3072, static_cast<char>(number));
  return bytes;
}

TEST(Cifar10, IsReadFromAFolder) {
  const TemporaryFolder folder;
  folder.write("data_batch_2.bin", cifar_records(20, 5));
  folder.write("data_batch_1.bin", cifar_records(0, 20));
  folder.write("test_batch.bin", cifar_records(100, 7));
  folder.write("readme.html", "no images");
  const auto source = cifar10_images({folder.path()});
  EXPECT_EQ(source->images(ImagePart::training), 25);
  EXPECT_EQ(source->images(ImagePart::held_out), 7);
  EXPECT_EQ(source->height(), 32);
  EXPECT_EQ(source->width(), 32);
  EXPECT_EQ(source->bytes(), 32 * 3073);
  EXPECT_EQ(source->class_names().size(), 10u);
  EXPECT_EQ(source->class_names()[6], "frog");
  for (std::int64_t number = 0; number < 25; ++number) {
    const ImageExample example = source->image(ImagePart::training, number);
    EXPECT_EQ(example.label, number % 10);
    EXPECT_EQ(example.pixels, std::vector<std::uint8_t>(3072, static_cast<std::uint8_t>(number)));
  }
  EXPECT_EQ(source->image(ImagePart::held_out, 6).pixels[0], 106);
  // The same images, file by file.
  const auto files = cifar10_images({folder.path() / "data_batch_1.bin", folder.path() / "data_batch_2.bin"});
  EXPECT_EQ(files->images(ImagePart::training) + files->images(ImagePart::held_out), 25);
  EXPECT_EQ(files->name(), "data_batch_1.bin, data_batch_2.bin");
  EXPECT_NE(files->sha256(), source->sha256());
  EXPECT_EQ(cifar10_images({folder.path()})->sha256(), source->sha256());
}

TEST(Cifar10, HoldsOutATenthByContent) {
  const TemporaryFolder folder;
  // Each of 100 twice.
  const auto path = folder.write("images.bin", cifar_records(0, 100) + cifar_records(0, 100));
  const auto source = cifar10_images({path});
  EXPECT_EQ(source->images(ImagePart::held_out), 20);
  EXPECT_EQ(source->images(ImagePart::training), 180);
  const PixelSet held_out = pixels_of(*source, ImagePart::held_out);
  EXPECT_EQ(held_out.size(), 10u);
  EXPECT_FALSE(share_an_image(held_out, pixels_of(*source, ImagePart::training)));
  // In another order and another number of files.
  const auto moved =
      cifar10_images({folder.write("b.bin", cifar_records(50, 50)), folder.write("a.bin", cifar_records(0, 50))});
  EXPECT_EQ(pixels_of(*moved, ImagePart::held_out), held_out);
  const auto tuning = source->for_tuning();
  EXPECT_EQ(tuning->images(ImagePart::training) + tuning->images(ImagePart::held_out), 180);
  EXPECT_FALSE(share_an_image(pixels_of(*tuning, ImagePart::held_out), held_out));
  EXPECT_FALSE(share_an_image(pixels_of(*tuning, ImagePart::held_out), pixels_of(*tuning, ImagePart::training)));
}

TEST(Cifar10, WrongFilesAreNamed) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    return error_of([path = folder.write("a.bin", bytes)] { cifar10_images({path}); });
  };
  const std::string name = (folder.path() / "a.bin").string(), good = cifar_records(0, 4);
  EXPECT_EQ(refusal(good.substr(1)), name + ": expected a CIFAR-10 file, of a multiple of 3,073 bytes, got 12291");
  EXPECT_EQ(refusal(""), name + ": expected a CIFAR-10 file, of a multiple of 3,073 bytes, got 0");
  std::string label = good;
  label[2 * 3073] = 10;
  EXPECT_EQ(refusal(label), name + " image 3: expected a label of 0 to 9, got 10");
  EXPECT_EQ(refusal(cifar_records(0, 1)),
            "a.bin: expected two different images or more, one to hold out, got only equal ones");
  EXPECT_EQ(
      error_of([&] { cifar10_images({folder.path()}); }),
      folder.path().string() + ": expected CIFAR-10 (data_batch_1.bin …, test_batch.bin), got none of these files");
  EXPECT_EQ(error_of([&] { cifar10_images({folder.path() / "b.bin"}); }),
            "CIFAR-10: expected a file or folder, got none at " + (folder.path() / "b.bin").string());
  EXPECT_NE(error_of([&] { cifar10_images({folder.write("test_batch.bin", good)}); }), "");  // nothing to train on
  EXPECT_THROW(cifar10_images({}), UsageError);
  // Cut after it was opened.
  const auto source = cifar10_images({folder.write("a.bin", good)});
  folder.write("a.bin", good.substr(0, 3073 + 9));
  std::string message;
  for (std::int64_t index = 0; index < 3; ++index)
    message += error_of([&] { source->image(ImagePart::training, index); });
  EXPECT_NE(message.find(name + " image 4: expected 3,073 bytes, got 0"), std::string::npos) << message;
}

TEST(Cifar10, SurvivesAnything) {
  const TemporaryFolder folder;
  std::mt19937 draw(1);
  int read = 0, refused = 0;
  for (int round = 0; round < 200; ++round) {
    std::string bytes = cifar_records(0, 4);
    if (round % 4 == 0) bytes.resize(draw() % bytes.size());
    for (auto changes = draw() % 300; changes > 0 && !bytes.empty(); --changes)
      bytes[draw() % bytes.size()] = static_cast<char>(draw());
    try {
      EXPECT_EQ(pixels_of(*cifar10_images({folder.write("a.bin", bytes)}), ImagePart::held_out).size(), 1u);
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 40);
}

// Beside the repository, whose build folder the tests run in.
std::filesystem::path shared_data(const std::string& name) {
  std::filesystem::path above = std::filesystem::current_path();
  while (!std::filesystem::exists(above / "shared/data" / name) && above.has_relative_path())
    above = above.parent_path();
  return above / "shared/data" / name;
}

TEST(Cifar10, IsReadAsItIsPublished) {
  const std::filesystem::path data = shared_data("cifar10");
  if (!std::filesystem::exists(data / "test_batch.bin")) GTEST_SKIP() << "no CIFAR-10 beside the repository";
  const auto source = cifar10_images({data});
  std::map<std::int64_t, int> labels;
  for (std::int64_t index = 0; index < source->images(ImagePart::held_out); ++index)
    ++labels[source->image(ImagePart::held_out, index).label];
  EXPECT_EQ(labels.size(), 10u);
  for (const auto& [label, count] : labels) EXPECT_EQ(count, source->images(ImagePart::held_out) / 10);
}

std::string png_of(std::uint8_t value, std::int64_t height = 4, std::int64_t width = 6) {
  return encode_png({height, width, std::vector<std::uint8_t>(static_cast<std::size_t>(3 * height * width), value)});
}

std::map<std::int64_t, std::int64_t> labels_by_value(const ImageSource& source, ImagePart part) {
  std::map<std::int64_t, std::int64_t> labels;
  for (std::int64_t index = 0; index < source.images(part); ++index) {
    const ImageExample example = source.image(part, index);
    labels[example.pixels[0]] = example.label;
  }
  return labels;
}

using Labels = std::map<std::int64_t, std::int64_t>;

TEST(ClassFolders, AreReadWithTheirParts) {
  const TemporaryFolder folder;
  folder.write("train/dog/b/2.png", png_of(2));
  folder.write("train/dog/1.PNG", png_of(1));
  folder.write("train/cat/1.jpg", written_jpeg(4, 6, {}, std::vector<std::uint8_t>(72, 3)));
  folder.write("train/cat/.hidden.png", "none");
  folder.write("train/cat/boxes.txt", "none");
  folder.write("train/.git/a.png", "none");
  folder.write("val/dog/1.png", png_of(5));
  folder.write("README.txt", "none");
  const auto two_parts = class_folder_images(folder.path());
  EXPECT_EQ(labels_by_value(*two_parts, ImagePart::held_out), (Labels{{5, 1}}));
  folder.write("test/cat/1.png", png_of(6));
  const auto source = class_folder_images(folder.path());
  EXPECT_EQ(source->class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(source->height(), 4);
  EXPECT_EQ(source->width(), 6);
  EXPECT_EQ(source->facts().left_out, 1);
  EXPECT_EQ(labels_by_value(*source, ImagePart::training), (Labels{{1, 1}, {2, 1}, {3, 0}}));
  EXPECT_EQ(labels_by_value(*source, ImagePart::held_out), (Labels{{6, 0}}));
  EXPECT_EQ(labels_by_value(*source->for_tuning(), ImagePart::held_out), (Labels{{5, 1}}));
  EXPECT_EQ(labels_by_value(*source->for_tuning(), ImagePart::training).size(), 3u);
  EXPECT_EQ(class_folder_images(folder.path())->sha256(), source->sha256());
  EXPECT_NE(class_folder_images(folder.path(), {.size = 2})->sha256(), source->sha256());
}

TEST(ClassFolders, AreChannelFirst) {
  const TemporaryFolder folder;
  const Image image = counted_image(4, 6);
  folder.write("train/a/1.png", encode_png(image));
  folder.write("test/a/2.png", encode_png(image));
  const auto source = class_folder_images(folder.path());
  const ImageExample example = source->image(ImagePart::training, 0);
  for (std::size_t pixel = 0; pixel < 24; ++pixel)
    for (std::size_t channel = 0; channel < 3; ++channel)
      EXPECT_EQ(example.pixels[channel * 24 + pixel], image.pixels[3 * pixel + channel]);
}

// Copies under other names, in other formats' metadata, and of the size that the model sees, are on one side; each
// class has its share.
TEST(ClassFolders, CopiesAreOnOneSide) {
  const TemporaryFolder folder;
  for (int picture = 0; picture < 40; ++picture)
    for (int copy = 0; copy < 10; ++copy) {
      const int side = copy < 5 ? 4 : 8;  // the same when it is made 4 × 4
      folder.write((picture % 4 == 0 ? "rare/" : "common/") + std::to_string(copy) + "/" +
                       std::to_string(97 * picture % 41) + ".png",
                   png_of(static_cast<std::uint8_t>(picture), side, side));
    }
  const auto source = class_folder_images(folder.path(), {.size = 4});
  EXPECT_EQ(source->images(ImagePart::held_out), 40);
  const Labels held_out = labels_by_value(*source, ImagePart::held_out),
               training = labels_by_value(*source, ImagePart::training);
  EXPECT_EQ(held_out.size(), 4u);
  std::int64_t rare = 0;
  for (const auto& [value, label] : held_out) {
    EXPECT_FALSE(training.contains(value)) << value;
    rare += label == 1 ? 1 : 0;
  }
  EXPECT_EQ(rare, 1);
  // For tuning, too.
  const auto tuning = source->for_tuning();
  const Labels trained = labels_by_value(*tuning, ImagePart::training);
  for (const auto& [value, label] : labels_by_value(*tuning, ImagePart::held_out))
    EXPECT_FALSE(trained.contains(value));
}

TEST(ClassFolders, AreKnownByTheirContent) {
  const TemporaryFolder folder;
  for (int number = 0; number < 20; ++number)
    folder.write((number % 2 == 0 ? "a/" : "b/") + std::to_string(number) + ".png",
                 png_of(static_cast<std::uint8_t>(number)));
  const std::string hash = class_folder_images(folder.path())->sha256();
  EXPECT_EQ(class_folder_images(folder.path())->sha256(), hash);
  ASSERT_EQ(png_of(4).size(), png_of(40).size());
  folder.write("a/4.png", png_of(40));
  EXPECT_NE(class_folder_images(folder.path())->sha256(), hash);
  for (const char* part : {"train/a/1.png", "train/b/2.png", "test/a/3.png"})
    folder.write(std::string("split/") + part, png_of(9));
  const auto split = [&] { return class_folder_images(folder.path() / "split")->sha256(); };
  const std::string before = split();
  ASSERT_EQ(png_of(9).size(), png_of(90).size());
  folder.write("split/test/a/3.png", png_of(90));
  EXPECT_NE(split(), before);
}

TEST(ClassFolders, LinksThatLeadNowhereAreLeftOut) {
  const TemporaryFolder folder;
  for (int number = 0; number < 20; ++number)
    folder.write((number % 2 == 0 ? "a/" : "b/") + std::to_string(number) + ".png",
                 png_of(static_cast<std::uint8_t>(number)));
  const std::string hash = class_folder_images(folder.path())->sha256();
  std::filesystem::create_symlink("loop", folder.path() / "loop");
  std::filesystem::create_symlink("loop.png", folder.path() / "a/loop.png");
  std::filesystem::create_directory_symlink(".", folder.path() / "c");
  std::filesystem::create_directory_symlink("..", folder.path() / "b/above");
  const auto source = class_folder_images(folder.path());
  EXPECT_EQ(source->class_names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(source->facts().left_out, 3);
  EXPECT_EQ(source->sha256(), hash);
  std::filesystem::create_directory(folder.path() / "caf\xe9");
  const std::string message = error_of([&] { class_folder_images(folder.path()); });
  EXPECT_EQ(message,
            folder.path().string() + ": a folder: expected the name of a class in UTF-8, got byte 0xE9 at offset 3");
}

TEST(ClassFolders, HoldOutATenthByContent) {
  const TemporaryFolder folder;
  for (int number = 0; number < 40; ++number)
    folder.write((number % 2 == 0 ? "train/" : "cars/") + std::to_string(number) + ".png",
                 png_of(static_cast<std::uint8_t>(number)));
  const auto source = class_folder_images(folder.path());
  EXPECT_EQ(source->class_names(), (std::vector<std::string>{"cars", "train"}));
  EXPECT_EQ(source->images(ImagePart::held_out), 4);
  EXPECT_EQ(source->images(ImagePart::training), 36);
  EXPECT_EQ(source->for_tuning()->images(ImagePart::held_out), 4);
  // One file less leaves the others where they are.
  const std::int64_t value = source->image(ImagePart::training, 7).pixels[0];
  std::filesystem::remove(folder.path() / (value % 2 == 0 ? "train" : "cars") / (std::to_string(value) + ".png"));
  EXPECT_EQ(pixels_of(*class_folder_images(folder.path()), ImagePart::held_out),
            pixels_of(*source, ImagePart::held_out));
  std::string message;
  for (std::int64_t index = 0; index < 36; ++index)
    message += error_of([&] { source->image(ImagePart::training, index); });
  EXPECT_NE(message.find("/" + std::to_string(value) + ".png"), std::string::npos);
}

TEST(ClassFolders, MayHaveAnySizeWhereOneIsAskedFor) {
  const TemporaryFolder folder;
  folder.write("a/1.png", png_of(1, 4, 6));
  folder.write("a/2.png", png_of(2, 4, 6));
  const auto odd = folder.write("a/3.png", png_of(3, 9, 5));
  EXPECT_EQ(error_of([&] { class_folder_images(folder.path()); }),
            odd.string() + ": expected the size of the other pictures, 6 × 4, got 5 × 9");
  const auto source = class_folder_images(folder.path(), {.size = 8});
  EXPECT_EQ(source->height(), 8);
  EXPECT_EQ(source->image(ImagePart::training, 0).pixels.size(), 3u * 8 * 8);
  EXPECT_THROW(class_folder_images(folder.path(), {.size = -1}), UsageError);
}

TEST(ClassFolders, WrongFilesAreNamed) {
  const auto refusal = [](const std::string& name, const std::string& contents) {
    const TemporaryFolder folder;
    folder.write("train/a/1.png", png_of(1));
    folder.write("train/b/2.png", png_of(2));
    folder.write("test/a/3.png", png_of(3));
    std::string message =
        error_of([path = folder.write(name, contents), &folder] { class_folder_images(folder.path()); });
    const auto at = message.find(folder.path().string());
    return at == std::string::npos ? message : message.erase(at, folder.path().string().size() + 1);
  };
  EXPECT_EQ(refusal("train/a/9.png", ""), "train/a/9.png: expected a PNG or JPEG, got an empty file");
  EXPECT_EQ(refusal("train/a/9.gif", "GIF89a"), "train/a/9.gif: expected a PNG or JPEG, got a GIF");
  EXPECT_NE(refusal("train/a/9.png", png_of(1).substr(0, 20)), "");
  EXPECT_EQ(refusal("train/9.png", png_of(1)),
            "train/9.png: expected pictures in folders of their classes, got one beside them");
  EXPECT_EQ(refusal("9.jpg", png_of(1)), "9.jpg: expected pictures in folders of their classes, got one beside them");
  EXPECT_EQ(refusal("test/c/9.png", png_of(1)), "test/c: expected a class that is trained on, got another one");
  EXPECT_EQ(refusal("train/c/9.txt", ""), "train/c: expected PNG or JPEG files of this class, got none");
  EXPECT_EQ(refusal("val/9.txt", ""), "val: expected PNG or JPEG files in folders of their classes, got none");
  EXPECT_EQ(refusal("extra/9.png", png_of(1)), "extra: expected only train, test and val in this folder, got extra");
  EXPECT_EQ(refusal("train/a/9.txt", ""), "");
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { class_folder_images(folder.path()); }),
            folder.path().string() + ": expected PNG or JPEG files in folders of their classes, got none");
  EXPECT_EQ(error_of([] { class_folder_images("/no/such"); }), "images: expected a folder, got none at /no/such");
}

TEST(ClassFolders, AreDecodedWhenAskedFor) {
  const TemporaryFolder folder;
  std::string cut = png_of(1);
  cut.resize(cut.size() - 9);
  for (int number = 0; number < 4; ++number) folder.write("train/a/" + std::to_string(number) + ".png", cut);
  // To choose what is held out, all are decoded at once, and the first that is damaged is named.
  EXPECT_TRUE(
      error_of([&] { class_folder_images(folder.path()); }).starts_with((folder.path() / "train/a/0.png").string()));
  folder.write("test/a/9.png", cut);
  const auto source = class_folder_images(folder.path());  // their headers are whole
  const std::string message = error_of([&] { source->image(ImagePart::held_out, 0); });
  EXPECT_TRUE(message.starts_with((folder.path() / "test/a/9.png").string())) << message;
}

TEST(GivenImages, AreSplitByContentAndKeepTheirRows) {
  const at::Tensor images = at::randint(256, {50, 3, 4, 5}).to(at::kByte);
  images.select(1, 0).select(1, 0).select(1, 0).copy_(at::arange(50));
  const at::Tensor contexts = at::rand({50, 2, 3});
  const auto source =
      given_images({.name = "a", .images = images, .labels = at::arange(50).remainder(7), .contexts = contexts});
  EXPECT_EQ(source->images(ImagePart::held_out), 5);
  EXPECT_EQ(source->class_names().size(), 7u);
  EXPECT_EQ(source->facts().context_tokens, 2);
  EXPECT_FALSE(source->facts().latents);
  std::set<int> rows;
  for (const ImagePart part : {ImagePart::training, ImagePart::held_out})
    for (std::int64_t index = 0; index < source->images(part); ++index) {
      const ImageExample example = source->image(part, index);
      const int row = example.pixels[0];
      rows.insert(row);
      const at::Tensor expected = images[row].contiguous();
      EXPECT_TRUE(std::equal(example.pixels.begin(), example.pixels.end(), expected.const_data_ptr<std::uint8_t>()));
      EXPECT_EQ(example.label, row % 7);
      EXPECT_EQ(example.context[5], contexts[row][1][2].item<float>());
    }
  EXPECT_EQ(rows.size(), 50u);
}

TEST(GivenImages, MayBeLatents) {
  const at::Tensor latents = at::rand({20, 4, 2, 2}).to(at::kBFloat16);
  const auto source = given_images({.name = "a", .images = latents});
  EXPECT_TRUE(source->facts().latents);
  EXPECT_EQ(source->channels(), 4);
  EXPECT_TRUE(source->class_names().empty());
  const ImageExample example = source->image(ImagePart::held_out, 0);
  EXPECT_TRUE(example.pixels.empty());
  EXPECT_EQ(example.latent.size(), 16u);
  EXPECT_EQ(example.label, -1);
  bool found = false;
  for (std::int64_t row = 0; row < 20; ++row) found |= latents[row][3][1][1].item<float>() == example.latent[15];
  EXPECT_TRUE(found);
}

TEST(GivenImages, WrongTensorsAreNamed) {
  const at::Tensor images = at::randint(256, {5, 3, 4, 4}).to(at::kByte), latents = at::rand({5, 4, 2, 2});
  const auto refusal = [](GivenImages given) {
    given.name = "a";
    return error_of([&] { given_images(given); });
  };
  const std::string kinds =
      "a: images: expected [images, 3, height, width] of Byte or [images, channels, height, width] of Float, got ";
  EXPECT_EQ(refusal({.images = {}}), kinds + "none");
  EXPECT_EQ(refusal({.images = images[0]}), kinds + "[3, 4, 4] of Byte");
  EXPECT_EQ(refusal({.images = images.slice(1, 0, 2)}), kinds + "[5, 2, 4, 4] of Byte");
  EXPECT_EQ(refusal({.images = images.to(at::kLong)}), kinds + "[5, 3, 4, 4] of Long");
  EXPECT_EQ(refusal({.images = images.slice(0, 0, 0)}), kinds + "[0, 3, 4, 4] of Byte");
  EXPECT_EQ(refusal({.images = latents.div(0)}), "a: images: expected finite numbers, got others in row 0");
  EXPECT_EQ(refusal({.images = images, .labels = at::arange(4)}),
            "a: labels: expected one whole number for each of 5 images, got [4] of Long");
  EXPECT_EQ(refusal({.images = images, .labels = at::rand({5})}),
            "a: labels: expected one whole number for each of 5 images, got [5] of Float");
  EXPECT_EQ(refusal({.images = images, .labels = at::arange(5).sub(1)}),
            "a: labels: expected 0 to 999999, got -1 in row 0");
  EXPECT_EQ(refusal({.images = images, .labels = at::arange(5), .class_names = {"x", "y"}}),
            "a: labels: expected 0 to 1, got 2 in row 2");
  EXPECT_EQ(refusal({.images = images, .class_names = {"x", "y"}}),
            "a: labels: expected those of the classes that are named, got none");
  EXPECT_EQ(refusal({.images = images, .contexts = at::rand({4, 2, 3})}),
            "a: contexts: expected [5, tokens, width] of Float, got [4, 2, 3] of Float");
  EXPECT_EQ(refusal({.images = at::full({5, 3, 2, 2}, 1, at::kByte)}),
            "a: expected two different images or more, one to hold out, got only equal ones");
}

TEST(TrainingOrder, MeetsEachImageOncePerEpoch) {
  const TemporaryFolder folder;
  const auto source = cifar10_images({folder.write("a.bin", cifar_records(0, 40))});
  const auto count = static_cast<std::uint64_t>(source->images(ImagePart::training));
  const auto epoch = [&](std::uint64_t seed, std::uint64_t number) {
    std::vector<int> met;
    for (std::uint64_t place = 0; place < count; ++place)
      met.push_back(source->training_image(seed, number * count + place).pixels[0]);
    EXPECT_EQ(std::set<int>(met.begin(), met.end()).size(), count);
    return met;
  };
  EXPECT_EQ(epoch(1, 0), epoch(1, 0));
  EXPECT_NE(epoch(1, 0), epoch(1, 1));
  EXPECT_NE(epoch(1, 0), epoch(2, 0));
}

}  // namespace
}  // namespace cogwheel::tasks::images
