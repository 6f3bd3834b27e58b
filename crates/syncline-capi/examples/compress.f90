! Compresses an array with a bound and restores it, through the C library.
! A Fortran array of shape (nx, ny) has the extents ny, nx in the stream: the first axis of Fortran is the fastest.
module syncline
  use iso_c_binding
  implicit none

  integer(c_int32_t), parameter :: syncline_f64 = 2, syncline_abs = 1, syncline_effort_balanced = 2

  type, bind(c) :: syncline_compress_options
    integer(c_size_t) :: struct_size
    integer(c_int32_t) :: bound_mode
    integer(c_int32_t) :: fill_mode
    real(c_double) :: bound_value
    real(c_double) :: fill_value
    type(c_ptr) :: advanced
    integer(c_int32_t) :: threads
    integer(c_int32_t) :: device
    integer(c_int64_t) :: memory_limit
    type(c_funptr) :: progress
    type(c_ptr) :: progress_user
    integer(c_int32_t) :: effort
    integer(c_int32_t) :: fill_count
    real(c_double) :: fill_values(4)
    integer(c_int32_t) :: rewritable
    integer(c_int32_t) :: reserved
  end type

  interface
    integer(c_size_t) function syncline_init_compress_options(options, struct_size) bind(c)
      import
      type(syncline_compress_options), intent(out) :: options
      integer(c_size_t), value :: struct_size
    end function
    integer(c_int) function syncline_is_error(result) bind(c)
      import
      integer(c_size_t), value :: result
    end function
    integer(c_size_t) function syncline_compress_bound(element_type, shape, rank) bind(c)
      import
      integer(c_int32_t), value :: element_type
      integer(c_int64_t), intent(in) :: shape(*)
      integer(c_size_t), value :: rank
    end function
    integer(c_size_t) function syncline_compress(context, output, capacity, data, data_size, element_type, shape, &
        rank, options) bind(c)
      import
      type(c_ptr), value :: context, output, data
      integer(c_size_t), value :: capacity, data_size, rank
      integer(c_int32_t), value :: element_type
      integer(c_int64_t), intent(in) :: shape(*)
      type(syncline_compress_options), intent(in) :: options
    end function
    integer(c_size_t) function syncline_decompress(context, output, output_size, stream, stream_size, options) bind(c)
      import
      type(c_ptr), value :: context, output, stream, options
      integer(c_size_t), value :: output_size, stream_size
    end function
  end interface
end module

program compress
  use syncline
  implicit none
  integer, parameter :: nx = 200, ny = 100
  real(c_double), target :: field(nx, ny), restored(nx, ny)
  integer(c_int8_t), allocatable, target :: stream(:)
  type(syncline_compress_options) :: options
  integer(c_int64_t) :: extents(2)
  integer(c_size_t) :: size_of_stream, bytes
  integer :: i, j

  do j = 1, ny
    do i = 1, nx
      field(i, j) = sin(0.02d0 * i) * cos(0.03d0 * j)
    end do
  end do
  extents = [int(ny, c_int64_t), int(nx, c_int64_t)]
  bytes = 8_c_size_t * nx * ny
  if (syncline_is_error(syncline_init_compress_options(options, c_sizeof(options))) /= 0) error stop 1
  options%bound_mode = syncline_abs
  options%bound_value = 1d-4
  options%effort = syncline_effort_balanced
  allocate (stream(syncline_compress_bound(syncline_f64, extents, 2_c_size_t)))
  size_of_stream = syncline_compress(c_null_ptr, c_loc(stream), size(stream, kind=c_size_t), c_loc(field), bytes, &
      syncline_f64, extents, 2_c_size_t, options)
  if (syncline_is_error(size_of_stream) /= 0) error stop 2
  if (syncline_is_error(syncline_decompress(c_null_ptr, c_loc(restored), bytes, c_loc(stream), size_of_stream, &
      c_null_ptr)) /= 0) error stop 3
  if (maxval(abs(field - restored)) > 1d-4) error stop 4
  print '(i0, a, i0, a)', bytes, ' bytes -> ', size_of_stream, ' bytes'
  print '(a)', 'ok'
end program
