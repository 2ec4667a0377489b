# Installs the folders that know nothing of libtorch as the CMake package `cogwheel`:
#   find_package(cogwheel REQUIRED)
#   target_link_libraries(my_program PRIVATE cogwheel::kernels)
# Everything is of the component `kernels`, so that it can be installed from a build that has libtorch too.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(installed_folders core mechanisms kernels)
set(installed_targets "")
foreach(folder IN LISTS installed_folders)
  set_target_properties(cogwheel_${folder} PROPERTIES EXPORT_NAME ${folder})
  list(APPEND installed_targets cogwheel_${folder})
endforeach()

install(TARGETS ${installed_targets} EXPORT cogwheel
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT kernels)
foreach(folder IN LISTS installed_folders)
  # The engines themselves are compiled into the library; a program needs the headers of the folder, not of cpu/.
  set(path cogwheel/attention/${folder})
  if(folder STREQUAL core)
    set(path cogwheel/core)
  endif()
  get_filename_component(parent ${path} DIRECTORY)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${path} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${parent}
    COMPONENT kernels FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN "cpu" EXCLUDE)
endforeach()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/cogwheel)
install(EXPORT cogwheel NAMESPACE cogwheel:: FILE cogwheel-targets.cmake DESTINATION ${package_folder}
  COMPONENT kernels)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cogwheel-config.cmake.in
  ${PROJECT_BINARY_DIR}/cogwheel-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cogwheel-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cogwheel-config.cmake ${PROJECT_BINARY_DIR}/cogwheel-config-version.cmake
  DESTINATION ${package_folder} COMPONENT kernels)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/cogwheel COMPONENT kernels)
