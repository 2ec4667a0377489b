#include "cogwheel/serve/http_server.h"

#include <gtest/gtest.h>

#include <string>

#include "cogwheel/core/error.h"

namespace cogwheel::serve {
namespace {

TEST(HttpServer, OnlyTheNamesOfThisMachine) {
  for (const char* own : {"127.0.0.1", "127.0.0.1:7341", "localhost", "localhost:1"})
    EXPECT_TRUE(is_own_host(own)) << own;
  for (const char* other :
       {"", ":80", "example.org", "example.org:7341", "127.0.0.1.example.org", "localhost.example.org",
        "127.0.0.1:", "127.0.0.1:80:example.org", "LOCALHOST@example.org", "127.0.0.2", "[::1]:80"})
    EXPECT_FALSE(is_own_host(other)) << other;
}

TEST(HttpServer, APortIsHadOnce) {
  const HttpServer first(0, "--port");
  ASSERT_GT(first.port(), 0);
  EXPECT_EQ(first.address(), "http://127.0.0.1:" + std::to_string(first.port()) + "/");
  try {
    const HttpServer second(first.port(), "--port");
    FAIL() << "two servers share a port";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(),
              "--port: expected a free port (0 takes any), got " + std::to_string(first.port()) + ", which is in use");
  }
}

}  // namespace
}  // namespace cogwheel::serve
