// The entry points of libFuzzer:
//   fuzz_readers --reader=NAME [options of libFuzzer] FOLDER
//   fuzz_readers --reader=NAME --seeds=FOLDER    writes the files to start from
//   fuzz_readers --list
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "cogwheel/core/error.h"
#include "readers.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

const cogwheel::Reader* chosen = nullptr;

void fail(const std::string& message) {
  std::fprintf(stderr, "fuzz_readers: %s\n", message.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** words) {
  for (int i = 1; i < *count; ++i) {
    const std::string word = (*words)[i];
    if (word == "--list") {
      for (const cogwheel::Reader& reader : cogwheel::readers()) std::puts(reader.name.c_str());
      std::exit(0);
    }
    if (word.starts_with("--reader="))
      for (const cogwheel::Reader& reader : cogwheel::readers())
        if (reader.name == word.substr(9)) chosen = &reader;
    if (word.starts_with("--seeds=") && chosen != nullptr) {
      for (std::size_t seed = 0; seed < chosen->seeds.size(); ++seed)
        std::ofstream(word.substr(8) + "/seed-" + std::to_string(seed), std::ios::binary) << chosen->seeds[seed];
      std::exit(0);
    }
  }
  if (chosen == nullptr) {
    std::fprintf(stderr, "fuzz_readers: --reader: expected one that --list names\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    chosen->read(bytes);
  } catch (const cogwheel::Error& error) {
    // One line of what was expected.
    const std::string message = error.what();
    if (message.find('\n') != std::string::npos) fail("more than one line: " + message);
    if (message.empty()) fail("no message");
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int /*seed*/) {
  std::size_t mutated = LLVMFuzzerMutate(data, size, max_size);
  if (!chosen->repair) return mutated;
  std::string bytes(reinterpret_cast<const char*>(data), mutated);
  chosen->repair(bytes);
  bytes.copy(reinterpret_cast<char*>(data), bytes.size());
  return bytes.size();
}
