/* Entry point: set the stack, clear .bss, and call `main`. Its result is the exit status. */
  .section .start, "ax"
  .globl _start
_start:
  la sp, stack_top
  la a0, bss_start
  la a1, bss_end
1:
  bgeu a0, a1, 2f
  sw zero, 0(a0)
  addi a0, a0, 4
  j 1b
2:
  call main
  li a1, 0x10000000
  sw a0, 12(a1)
3:
  j 3b

/* Sleep until an interrupt is pending: PicoRV32's instruction `waitirq a0`. Interrupts stay masked, so none is lost. */
  .section .text.wait_for_interrupt, "ax"
  .globl wait_for_interrupt
wait_for_interrupt:
  .word 0x0800450b
  ret
